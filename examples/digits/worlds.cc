#include "worlds.hpp"

#include <cstdlib>

namespace digits {
namespace {

// What `collect run` has told this process.
std::int32_t told_by_launcher(const char *name) {
  const char *text = std::getenv(name);
  if (text == nullptr) throw std::runtime_error(std::string(name) + " is not set: use collect run");
  return static_cast<std::int32_t>(std::stoi(text));
}

Store open_store() {
  collect_store *store = nullptr;
  check(collect_store_open(nullptr, 0, &store), "open the store");
  return Store(store);
}

World create(const Store &store, std::int32_t rank, std::int32_t size) {
  collect_world *world = nullptr;
  check(collect_world_create(store.get(), rank, size, nullptr, &world), "create the first world");
  return World(world);
}

World fork_of(const World &parent) {
  collect_world *world = nullptr;
  check(collect_world_fork(parent.get(), nullptr, &world), "fork a world");
  return World(world);
}

} // namespace

void check(collect_status status, const char *what) {
  if (status != COLLECT_OK)
    throw std::runtime_error(std::string(what) + ": " + collect_last_error_message());
}

Worlds::Worlds(std::size_t count) : store_(open_store()) {
  const std::int32_t rank = told_by_launcher("LIBCOLLECT_RANK");
  const std::int32_t size = told_by_launcher("LIBCOLLECT_SIZE");
  worlds_.push_back(create(store_, rank, size));
  rank_ = static_cast<std::size_t>(rank);
  size_ = static_cast<std::size_t>(size);
  store_operations_at_creation_ = store_operations();
  while (worlds_.size() < count)
    worlds_.push_back(fork_of(worlds_.front()));
}

Worlds::~Worlds() {
  for (const Request &request : pending_) {
    // An operation that failed has ended as well, and destructors do not throw.
    if (collect_request_wait(request.get(), -1) != COLLECT_OK) continue;
  }
}

void Worlds::start_average(std::vector<float> &values) {
  const World &world = worlds_[turn_++ % worlds_.size()];
  collect_request *request = nullptr;
  check(collect_allreduce(world.get(), values.data(), values.data(), values.size(), COLLECT_F32,
                          COLLECT_AVG, nullptr, &request),
        "start an allreduce");
  pending_.emplace_back(request);
}

void Worlds::wait_for_all() {
  for (const Request &request : pending_)
    check(collect_request_wait(request.get(), 0), "wait for an allreduce");
  pending_.clear();
}

void Worlds::broadcast(std::vector<float> &values) {
  check(collect_broadcast(worlds_.front().get(), values.data(), values.size(), COLLECT_F32, 0,
                          nullptr, nullptr),
        "broadcast");
}

void Worlds::barrier() {
  check(collect_barrier(worlds_.front().get(), nullptr, nullptr), "barrier");
}

float Worlds::average(float value) {
  check(collect_allreduce(worlds_.front().get(), &value, &value, 1, COLLECT_F32, COLLECT_AVG,
                          nullptr, nullptr),
        "average");
  return value;
}

std::uint64_t Worlds::reduce(std::uint64_t value, collect_op op) {
  check(collect_allreduce(worlds_.front().get(), &value, &value, 1, COLLECT_U64, op, nullptr,
                          nullptr),
        "reduce");
  return value;
}

std::uint64_t Worlds::store_operations() const {
  std::uint64_t operations = 0;
  check(collect_store_operations(store_.get(), &operations), "count the store's operations");
  return operations;
}

std::uint64_t Worlds::store_operations_since_creation() {
  return reduce(store_operations() - store_operations_at_creation_, COLLECT_SUM);
}

} // namespace digits
