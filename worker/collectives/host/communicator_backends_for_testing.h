#ifndef MUSTER_WORKER_COLLECTIVES_HOST_COMMUNICATOR_BACKENDS_FOR_TESTING_H_
#define MUSTER_WORKER_COLLECTIVES_HOST_COMMUNICATOR_BACKENDS_FOR_TESTING_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "worker/collectives/communicator.h"

namespace muster {

// A group whose ranks are threads of the test.
class TestGroup {
 public:
  virtual ~TestGroup() = default;

  int size() const { return static_cast<int>(ranks.size()); }
  // Runs `work` with each rank on a thread of its own, until all have returned.
  void Run(const std::function<void(Communicator& communicator)>& work);

  // Faults of one rank. REQUIRES: the backend can_break.
  virtual void Kill(int rank);
  virtual void Stop(int rank);
  virtual void Continue(int rank);

  // Communicators by rank. A test may take one away.
  std::vector<std::unique_ptr<Communicator>> ranks;
};

// A kind of transport, with the communicator on top.
struct Backend {
  std::string name;
  std::function<std::unique_ptr<TestGroup>(int size)> make;
  bool can_break = false;
  // True if Allocate gives memory that the ranks share.
  bool shares_memory = false;
};

// Returns all backends that the contract holds for, each with one kind of pipe between all ranks.
const std::vector<Backend>& AllBackends();

// Returns a backend whose even ranks share memory among themselves, while every other pair uses
// TCP, as on several machines with several ranks each. It takes three ranks or more.
const Backend& MixedBackend();

// A backend and the size of its groups.
using BackendAndSize = std::tuple<Backend, int>;
// Sizes of groups, by a backend's name.
using SizesByBackend = std::map<std::string, std::vector<int>>;

// Returns every one of `backends` with every one of `sizes`: those that `chosen` has, for a default
// run of tests, and the others, for an exhaustive one.
std::vector<BackendAndSize> ChosenOf(const std::vector<Backend>& backends,
                                     const std::vector<int>& sizes, const SizesByBackend& chosen);
std::vector<BackendAndSize> OthersOf(const std::vector<Backend>& backends,
                                     const std::vector<int>& sizes, const SizesByBackend& chosen);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_COMMUNICATOR_BACKENDS_FOR_TESTING_H_
