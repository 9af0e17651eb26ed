#ifndef MUSTER_CLIENT_TERMINAL_STARVING_EXPERTS_H_
#define MUSTER_CLIENT_TERMINAL_STARVING_EXPERTS_H_

#include <string>
#include <vector>

namespace muster {

namespace v1 {
class JobStatus;
}  // namespace v1

// An expert starves if it got less than this part of the mean of its block's experts, ...
inline constexpr double kStarvingShare = 0.1;
// ... in a block whose experts got this many tokens on average: with even odds, chance alone then
// leaves no expert with so few.
inline constexpr double kFewestTokensOfMean = 100;

// Returns two lines, of at most 67 characters with up to 64 blocks of 256 experts, that name the
// expert that starves most, say how many others do, and what to change in the job; none if no
// expert starves.
std::vector<std::string> StarvingExperts(const v1::JobStatus& job);

}  // namespace muster

#endif  // MUSTER_CLIENT_TERMINAL_STARVING_EXPERTS_H_
