#ifndef MUSTER_COMMON_BASE_VERSION_H_
#define MUSTER_COMMON_BASE_VERSION_H_

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// The release of this tree, made or to come. No other file names it: packages ask the built
// `muster`. CHANGELOG.md says what is in it.
inline constexpr char kRelease[] = "0.1.0";

// Returns the commit that the program was built from, such as "5d3b2c1" or "5d3b2c1 with changes".
// Returns "unknown" unless the build was stamped, as those of `./muster package` and `install` are:
// a stamp in every build would link every program anew with each commit.
std::string Commit();

// Returns how the program was compiled: "optimised, GCC 12.2.0".
std::string BuildType();

// Returns what `PROGRAM --version` prints:
// "muster-server 0.1.0 (commit 5d3b2c1; optimised, GCC 12.2.0)".
std::string VersionLine(absl::string_view program);

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_VERSION_H_
