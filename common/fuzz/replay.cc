#include "common/fuzz/replay.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "common/base/philox.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr uint64_t kMutations = 3000;

// Damages a seed in one to four places, as a function of `target` and `round` alone: bytes changed,
// cut out, doubled or put in, the end cut off. Bytes put in are often ones that mean something to a
// parser.
std::string Mutate(absl::string_view seed, absl::string_view target, uint64_t round) {
  static constexpr char kTelling[] = "\0\n\r\",:+-.0129eENna#{}[]\x08\x1f\x7f\x80\x8b\xff\t ";
  const Philox random(1, "fuzz", target);
  std::string bytes(seed);
  uint64_t draw = 0;
  const auto below = [&](uint64_t bound) { return random.Below(bound, round, draw++); };
  const uint64_t edits = 1 + below(4);
  for (uint64_t edit = 0; edit < edits && !bytes.empty(); ++edit) {
    const size_t at = below(bytes.size());
    const size_t length = 1 + below(std::min<size_t>(8, bytes.size() - at));
    const char byte =
        below(2) == 0 ? kTelling[below(sizeof(kTelling) - 1)] : static_cast<char>(below(256));
    switch (below(5)) {
      case 0:
        bytes[at] = byte;
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, length));
        break;
      case 3:
        bytes.insert(at, 1, byte);
        break;
      case 4:
        bytes.resize(at);
        break;
    }
  }
  return bytes;
}

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
