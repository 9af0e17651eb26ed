#ifndef MUSTER_CLIENT_COMMANDS_ARGUMENTS_COLLECTIVE_FLAGS_H_
#define MUSTER_CLIENT_COMMANDS_ARGUMENTS_COLLECTIVE_FLAGS_H_

#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace muster {

// Adds flags of muster-worker that say how the workers of a cluster made here train with one
// another. `worker_flags`, which outlives the command, gets the given flags, to be passed on.
void AddCollectiveFlags(CLI::App& command, std::vector<std::string>& worker_flags);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_ARGUMENTS_COLLECTIVE_FLAGS_H_
