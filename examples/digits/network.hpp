// A multilayer perceptron in plain C++: fully connected layers with ReLU between them, softmax at
// the end.
//
// It knows nothing of other ranks. `backward` tells when the gradients of a layer are ready, so
// that whoever trains can send them while the layers below are still being computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace digits {

// One fully connected layer. Weights and biases stand in one array, and so do their gradients: one
// allreduce a layer.
struct Layer {
  Layer(std::size_t inputs, std::size_t outputs);

  void randomise(std::mt19937 &random);
  float *biases() { return parameters.data() + inputs * outputs; }
  float *bias_gradients() { return gradients.data() + inputs * outputs; }

  std::size_t inputs;
  std::size_t outputs;
  std::vector<float> parameters; // outputs rows of inputs weights, then outputs biases
  std::vector<float> gradients;  // of the same shape
  std::vector<float> velocities; // momentum, of the same shape
};

class Network {
public:
  // `widths` from the input to the output. The same seed gives the same weights everywhere.
  Network(const std::vector<std::size_t> &widths, std::uint32_t seed);

  // Computes the class probabilities of `count` images that lie one after the other.
  const std::vector<float> &forward(const float *images, std::size_t count);

  // After `forward` on the same images: computes the mean gradients, from the last layer to the
  // first. Calls `ready` with the index of each layer as soon as its gradients are complete.
  void backward(const float *images, const int *labels, std::size_t count,
                const std::function<void(std::size_t)> &ready);

  // Takes one step of gradient descent with momentum.
  void update(float rate, float momentum);

  std::vector<Layer> &layers() { return layers_; }

  // A 64-bit FNV-1a hash over the bits of all parameters.
  std::uint64_t hash() const;

private:
  void propagate(std::size_t at, const float *inputs, std::size_t count);

  std::vector<Layer> layers_;
  std::vector<std::vector<float>> outputs_; // of each layer, for the images of the last `forward`
};

// The mean cross-entropy of `probabilities` for the labels.
float loss_of(const std::vector<float> &probabilities, const int *labels, std::size_t count);

// How many images have their label as the most probable class.
std::uint64_t correct_among(const std::vector<float> &probabilities, const int *labels,
                            std::size_t count);

} // namespace digits
