#include "common/fuzz/replay.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "common/fuzz/mutate.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr uint64_t kMutations = 3000;

// Names what is being replayed, for the message of a crash; made before the replay.
std::array<char, 512> current;

// Says which input it was, and lets the signal end the process.
void SayWhich(int number) {
  size_t length = 0;
  while (length < current.size() && current[length] != '\0') ++length;
  // Nothing helps where writing fails.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, current.data(), length);
  signal(number, SIG_DFL);
  raise(number);
}

class FuzzReplayTest : public testing::TestWithParam<FuzzTarget> {
 protected:
  FuzzReplayTest() {
    for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) signal(number, SayWhich);
  }
  ~FuzzReplayTest() override {
    for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) signal(number, SIG_DFL);
  }

  // File names and contents, in a fixed order.
  static std::vector<std::pair<std::string, std::string>> Seeds() {
    std::vector<std::pair<std::string, std::string>> seeds;
    for (const auto& entry : std::filesystem::directory_iterator(GetParam().corpus)) {
      std::ifstream file(entry.path(), std::ios::binary);
      std::stringstream content;
      content << file.rdbuf();
      seeds.emplace_back(entry.path().filename().string(), content.str());
    }
    std::sort(seeds.begin(), seeds.end());
    return seeds;
  }

  // Round 0 is the seed itself.
  static void Run(const std::string& seed, const std::string& content, uint64_t round) {
    std::snprintf(current.data(), current.size(), "%s: %s/%s, mutation %llu (0: as it is)\n",
                  GetParam().name, GetParam().corpus, seed.c_str(),
                  static_cast<unsigned long long>(round));
    const std::string bytes = round == 0 ? content : Mutate(content, GetParam().name, round);
    // Exactly as long as the input, so that a sanitizer sees a read behind its end.
    const auto copy = std::make_unique<uint8_t[]>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), copy.get());
    EXPECT_EQ(GetParam().run(copy.get(), bytes.size()), 0) << current.data();
  }
};

TEST_P(FuzzReplayTest, TakesSeedsAndMutations) {
  const auto seeds = Seeds();
  ASSERT_FALSE(seeds.empty()) << GetParam().corpus;
  for (const auto& [name, content] : seeds) Run(name, content, 0);
  for (uint64_t round = 1; round <= kMutations; ++round) {
    const auto& [name, content] = seeds[round % seeds.size()];
    Run(name, content, round);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzReplayTest, testing::ValuesIn(FuzzTargets()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace muster
