#include "common/base/version.h"

namespace muster {

// In a build without --stamp.
std::string Commit() { return "unknown"; }

}  // namespace muster
