// libcollect as this program needs it: owners of its handles, errors as exceptions, and a ring of
// worlds.
#pragma once

#include <collect/collect.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace digits {

// Throws the library's text unless `status` is success.
void check(collect_status status, const char *what);

struct Release {
  void operator()(collect_store *store) const { collect_store_destroy(store); }
  void operator()(collect_world *world) const { collect_world_destroy(world); }
  void operator()(collect_request *request) const { collect_request_free(request); }
};
using Store = std::unique_ptr<collect_store, Release>;
using World = std::unique_ptr<collect_world, Release>;
using Request = std::unique_ptr<collect_request, Release>;

// Several worlds of the same ranks. The first is created through the store, the others are forked
// from it, which costs neither a connection nor a visit to the store. Operations on different
// worlds run side by side.
class Worlds {
public:
  // Takes rank, size and store from the launcher's environment.
  explicit Worlds(std::size_t count);
  Worlds(const Worlds &) = delete;
  Worlds &operator=(const Worlds &) = delete;
  // Waits for what is under way: it still writes to its callers' memory. So let values outlive
  // their Worlds.
  ~Worlds();

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return size_; }
  std::size_t count() const { return worlds_.size(); }
  std::size_t forked() const { return worlds_.size() - 1; }

  // Starts to average `values` over the ranks, in place, on the next world in turn. They belong to
  // the library until `wait_for_all` returns.
  void start_average(std::vector<float> &values);
  void wait_for_all();

  void broadcast(std::vector<float> &values);
  void barrier();
  float average(float value);
  std::uint64_t reduce(std::uint64_t value, collect_op op);

  // Operations on the store since the worlds were created, over all ranks.
  std::uint64_t store_operations_since_creation();

private:
  std::uint64_t store_operations() const;

  // Destroyed last to first: requests, worlds, store.
  Store store_;
  std::vector<World> worlds_;
  std::vector<Request> pending_;
  std::size_t rank_ = 0;
  std::size_t size_ = 0;
  std::size_t turn_ = 0;
  std::uint64_t store_operations_at_creation_ = 0;
};

} // namespace digits
