#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_RANK_PROCESS_FOR_TESTING_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_RANK_PROCESS_FOR_TESTING_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "common/transport/descriptor.h"
#include "worker/collectives/transport/meeting/group_for_testing.h"

namespace muster {

// A rank in a process of its own: the test's binary again, with kRankArgument. It talks in lines.
//
//   it: ADDRESS hex          once it is there
//   to: GROUP rank hex…      meet; it: MET
//   to: EXCHANGE | COMPUTE   exchange with both neighbours for ever, or only look at health()
//   it: FAILED code message  once, when health() is no longer OK
//   to: SURVEY               it: STATES life… (as RankState::Life, by rank)
//   to: COUNT                it: COUNT exchanges so far
//   to: RESET                breaks all its connections
//   to: LEAVE                destroys its transport; it: LEFT
// It ends, without a goodbye, when its input does.
class RankProcess {
 public:
  explicit RankProcess(Wiring wiring, int rank);
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  pid_t pid() const { return pid_; }
  void Tell(const std::string& line);
  // Waits for the next line that begins with `word`, drops others, and returns the rest of it.
  // Fails the test and returns "" if the process ends without it.
  std::string Await(const std::string& word);
  void Signal(int signal);

 private:
  pid_t pid_ = 0;
  Descriptor socket_;
  std::string input_;
};

constexpr char kRankArgument[] = "--rank-process";
// Descriptor over which a rank process talks.
constexpr int kRankSocket = 3;
// Breaks every connection of this process except kRankSocket, all before any of its threads knows,
// as a cable that is pulled does. Otherwise a rank that has lost one connection would tell by the
// next that its peer is out of reach, which is as true as what the peer says of it.
void BreakConnections();
// Runs a rank process; returns its exit status.
int RunRankProcess(const std::string& wiring, const std::string& rank);

// Starts rank processes and returns them once they have met.
std::vector<std::unique_ptr<RankProcess>> StartRanks(Wiring wiring, int size);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_RANK_PROCESS_FOR_TESTING_H_
