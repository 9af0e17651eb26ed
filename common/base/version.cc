#include "common/base/version.h"

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

std::string Compiler() {
#if defined(__clang__)
  return absl::StrCat("Clang ", __clang_major__, ".", __clang_minor__, ".", __clang_patchlevel__);
#else
  return absl::StrCat("GCC ", __GNUC__, ".", __GNUC_MINOR__, ".", __GNUC_PATCHLEVEL__);
#endif
}

}  // namespace

std::string BuildType() {
#if defined(__SANITIZE_ADDRESS__)
  const char* kind = "address sanitizer";
#elif defined(__SANITIZE_THREAD__)
  const char* kind = "thread sanitizer";
#elif defined(NDEBUG)
  const char* kind = "optimised";
#else
  const char* kind = "with assertions";
#endif
  return absl::StrCat(kind, ", ", Compiler());
}

std::string VersionLine(absl::string_view program) {
  return absl::StrCat(program, " ", kRelease, " (commit ", Commit(), "; ", BuildType(), ")");
}

}  // namespace muster
