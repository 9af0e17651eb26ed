#include "common/fuzz/fuzz_check.h"

#include <cstdio>
#include <cstdlib>

namespace muster {

void FuzzFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: FUZZ_CHECK failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace muster
