#include "common/base/machine/vector_level.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>

#include "absl/strings/str_split.h"

namespace muster {
namespace {

// What Linux says of the first processor.
std::set<std::string> SystemFlags() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("flags", 0) == 0) return absl::StrSplit(line, ' ');
  }
  return {};
}

TEST(VectorLevelTest, IsWhatTheSystemSays) {
  const std::set<std::string> flags = SystemFlags();
  if (flags.empty()) GTEST_SKIP() << "the system does not list the processor's flags";
  const auto all = [&flags](const std::set<std::string>& wanted) {
    for (const std::string& flag : wanted) {
      if (flags.count(flag) == 0) return false;
    }
    return true;
  };
  VectorLevel level = VectorLevel::kBaseline;
  if (all({"avx2", "fma", "f16c"})) level = VectorLevel::kAvx2;
  if (all({"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl"})) {
    level = VectorLevel::kAvx512;
  }
  EXPECT_EQ(ProcessorVectorLevel(), level);
}

}  // namespace
}  // namespace muster
