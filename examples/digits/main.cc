// Trains a small network on handwritten digits over several processes, the way a training framework
// does it.
//
//   collect run -n 4 -- build/digits examples/digits/digits.csv
//
// Each rank computes gradients on its share of the images. As soon as those of a layer are ready,
// their average over the ranks starts on the next of several worlds, while the layers below are
// still being computed; the update waits for all of them. So every rank takes the same steps, and
// ends with the same weights, bit by bit.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>

#include "dataset.hpp"
#include "network.hpp"
#include "worlds.hpp"

namespace {

using digits::Dataset;
using digits::Network;
using digits::Worlds;

constexpr std::size_t worlds_count = 4;
constexpr std::size_t epochs = 30;
constexpr std::size_t global_batch = 32; // images a step, over all ranks
constexpr float rate = 0.02F;
constexpr float momentum = 0.9F;
constexpr std::uint32_t seed = 20260101;

// Milliseconds spent, for one epoch.
struct Spent {
  double computing = 0;
  double communicating = 0;
};

// Adds the time of its own life to a sum.
class Stopwatch {
public:
  explicit Stopwatch(double &sum) : sum_(sum), start_(Clock::now()) {}
  Stopwatch(const Stopwatch &) = delete;
  Stopwatch &operator=(const Stopwatch &) = delete;
  ~Stopwatch() { sum_ += std::chrono::duration<double, std::milli>(Clock::now() - start_).count(); }

private:
  using Clock = std::chrono::steady_clock;
  double &sum_;
  Clock::time_point start_;
};

// The order in which a rank sees its images: another one each epoch, the same in every run.
Dataset shuffled(const Dataset &images, std::mt19937 &random) {
  std::vector<std::size_t> order(images.size());
  for (std::size_t at = 0; at < order.size(); ++at)
    order[at] = at;
  for (std::size_t at = order.size(); at > 1; --at)
    std::swap(order[at - 1], order[random() % at]);
  Dataset result;
  for (const std::size_t at : order)
    result.add(images.image(at), images.labels[at]);
  return result;
}

// One step on `count` images from `first`. Returns the loss before it.
float step(Network &network, Worlds &worlds, const Dataset &images, std::size_t first,
           std::size_t count, Spent &spent) {
  const float *pixels = images.image(first);
  const int *labels = images.labels.data() + first;
  float loss = 0;
  double starting = 0;
  {
    const Stopwatch watch(spent.computing);
    loss = digits::loss_of(network.forward(pixels, count), labels, count);
    network.backward(pixels, labels, count, [&](std::size_t layer) {
      const Stopwatch start(starting);
      worlds.start_average(network.layers()[layer].gradients);
    });
  }
  {
    const Stopwatch watch(spent.communicating);
    worlds.wait_for_all();
  }
  {
    const Stopwatch watch(spent.computing);
    network.update(rate, momentum);
  }
  spent.computing -= starting;
  spent.communicating += starting;
  return loss;
}

// The share of the held-out images that the network gets right; each rank looks at its part of
// them.
double accuracy_of(Network &network, Worlds &worlds, const Dataset &held_out) {
  const Dataset part = digits::shard(held_out, worlds.rank(), worlds.size());
  const std::vector<float> &probabilities = network.forward(part.pixels.data(), part.size());
  const std::uint64_t correct =
      digits::correct_among(probabilities, part.labels.data(), part.size());
  const std::uint64_t total = worlds.reduce(correct, COLLECT_SUM);
  return static_cast<double>(total) / static_cast<double>(held_out.size());
}

// Returns the accuracy after the last epoch.
double train(Network &network, Worlds &worlds, const digits::Split &split) {
  const Dataset own = digits::shard(split.training, worlds.rank(), worlds.size());
  // Every rank takes as many steps, of as many images, as the smallest shard allows.
  const std::size_t batch = std::max<std::size_t>(1, global_batch / worlds.size());
  const std::size_t steps = split.training.size() / worlds.size() / batch;
  std::mt19937 random(seed + static_cast<std::uint32_t>(worlds.rank()));
  double accuracy = 0;
  for (std::size_t epoch = 1; epoch <= epochs; ++epoch) {
    const Dataset images = shuffled(own, random);
    Spent spent;
    float loss = 0;
    for (std::size_t at = 0; at < steps; ++at)
      loss += step(network, worlds, images, at * batch, batch, spent) / static_cast<float>(steps);
    loss = worlds.average(loss);
    accuracy = accuracy_of(network, worlds, split.held_out);
    if (worlds.rank() == 0) {
      std::printf("epoch %2zu  loss %.4f  accuracy %.4f  compute %.1f ms  communication %.1f ms\n",
                  epoch, static_cast<double>(loss), accuracy, spent.computing, spent.communicating);
      std::fflush(stdout);
    }
  }
  return accuracy;
}

int run(const char *path) {
  const digits::Split split = digits::hold_out_a_fifth(digits::read_csv(path));
  // Before the worlds, so that no operation outlives the memory it works on.
  Network network({digits::pixels_per_image, 64, 32, digits::classes}, seed);
  Worlds worlds(worlds_count);
  // As a framework does, which cannot rely on equal seeds: rank 0's weights are the ones that
  // count.
  for (digits::Layer &layer : network.layers())
    worlds.broadcast(layer.parameters);

  const double accuracy = train(network, worlds, split);

  const std::uint64_t hash = network.hash();
  const bool identical = worlds.reduce(hash, COLLECT_MIN) == worlds.reduce(hash, COLLECT_MAX);
  const std::uint64_t store_operations = worlds.store_operations_since_creation();
  if (worlds.rank() == 0)
    std::printf("digits: ranks=%zu accuracy=%.4f weights_identical=%s worlds=%zu forked=%zu "
                "store_ops_after_create=%llu\n",
                worlds.size(), accuracy, identical ? "yes" : "no", worlds.count(), worlds.forked(),
                static_cast<unsigned long long>(store_operations));
  return identical && store_operations == 0 && accuracy >= 0.95 ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: collect run -n 4 -- %s digits.csv\n", argv[0]);
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "digits: %s\n", error.what());
    return 1;
  }
}
