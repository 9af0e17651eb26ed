#ifndef MUSTER_CLIENT_CHAOS_INTEGER_PUSHERS_H_
#define MUSTER_CLIENT_CHAOS_INTEGER_PUSHERS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/chaos/integer_pusher.h"
#include "client/chaos/standalone_server.h"
#include "common/partition/dense_layout.h"

namespace muster {

// Workers that push integers to one server under EVERY_PUSH, asynchronously, each in a thread of
// its own, and keep their own sums. Since floats add small integers exactly, every element must end
// up equal to its sum, whatever happened to the server in between. A contribution that was lost or
// applied twice shows.
//
// In each clock a slot pushes an integer in [-8, 8] to every dense element and to some of the rows;
// now and then all slots take a cut. What was not acknowledged is repeated over a new connection.
//
// One thread calls the methods.
class IntegerPushers {
 public:
  // `server` must outlive this object.
  static absl::StatusOr<std::unique_ptr<IntegerPushers>> Create(StandaloneServer& server,
                                                                IntegerTables tables);
  // Waits for the threads.
  ~IntegerPushers();

  // Lets all slots push until they have closed `clocks` clocks. REQUIRES: no slot is pushing.
  void Begin(uint64_t clocks);
  // Returns true if all slots are done or have given up.
  bool Done() const { return running_ == 0; }
  // Waits until Done(), and returns the first error of a slot.
  absl::Status Await();

  // Pulls all values and compares them with the sums. DataLoss: names an element with its expected
  // and actual value, and the number of wrong ones.
  absl::Status CheckSums();

  // Number of clocks that every slot has closed, as of the last Await that returned OK.
  uint64_t clocks() const { return clocks_; }
  // Forgets what was pushed since the last Await that returned OK. Called after an error.
  void Rewind();

 private:
  IntegerPushers(StandaloneServer& server, IntegerTables tables, DenseLayout layout);

  const IntegerTables tables_;
  const DenseLayout layout_;
  std::vector<std::unique_ptr<IntegerPusher>> pushers_;
  std::vector<std::thread> threads_;
  // By slot; each is written by its slot's thread.
  std::vector<absl::Status> results_;
  std::atomic<int> running_ = 0;
  uint64_t target_ = 0;
  uint64_t clocks_ = 0;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_INTEGER_PUSHERS_H_
