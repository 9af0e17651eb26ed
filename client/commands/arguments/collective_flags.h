#ifndef MUSTER_CLIENT_COMMANDS_ARGUMENTS_COLLECTIVE_FLAGS_H_
#define MUSTER_CLIENT_COMMANDS_ARGUMENTS_COLLECTIVE_FLAGS_H_

#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace muster {

// Adds the flags by which a user says how the workers of a cluster made here train with one another
// (those of muster-worker); `worker_flags`, which outlives the command, gets what is given, to be
// handed on.
void AddCollectiveFlags(CLI::App& command, std::vector<std::string>& worker_flags);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_ARGUMENTS_COLLECTIVE_FLAGS_H_
