// Training and generation give the bits that they gave when the fixtures were recorded: losses of
// all steps, gradients, trained parameters, evaluations and logits of small deterministic jobs.
//
// Bits depend on what of the processor's instructions is used, so a process limits itself to one
// level (--level: avx2, avx512 or avx512_bf16), and each level has fixtures of its own. Those of
// avx2 hold on every processor that has AVX2. On the other two levels oneDNN may go by more of the
// processor, so their fixtures name the model that they were recorded on. All depend on the
// compiler, oneDNN and the C library, and name them. Where something of that is another one here,
// equal bits still pass, but others are no failure: the test is skipped and says what is different.
// avx2 is compared on every machine that has it.
//
// Recording anew, with the current bits:
//
//   bazel run //tests/golden:golden_avx2_test -- --record=$PWD/tests/golden/fixtures
//
// A fixture is recorded anew only in a commit that means to change bits, and that says in its
// message and in CHANGELOG.md which jobs' bits change and why: another order of sums, another
// compiler or oneDNN, a mended bug. Never to make a test pass whose difference nobody has
// explained. transformers_f16 may change once for the group-wide loss scale. --gtest_filter records
// some jobs and leaves the others of their file as they are.
#include <gnu/libc-version.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/machine/simd_clones.h"
#include "common/files/temp_folder.h"
#include "common/kernels/transformer/limit_instructions_for_testing.h"
#include "dnnl.h"
#include "gtest/gtest.h"
#include "tests/golden/golden_jobs.h"
#include "tests/golden/golden_record.h"
#include "tests/golden/golden_run.h"

namespace muster {
namespace {

constexpr char kFixtures[] = "tests/golden/fixtures";

struct Level {
  const char* name;
  InstructionLimit limit;
  // Fixtures hold for the recorded model of processor only.
  bool of_one_model;
  // The one file whose bits are not those of the level before; null: all of them.
  const char* file;
};

constexpr Level kLevels[] = {
    {"avx2", InstructionLimit::kAvx2, false, nullptr},
    {"avx512", InstructionLimit::kAvx512, true, nullptr},
    {"avx512_bf16", InstructionLimit::kAvx512Bf16, true, "transformers_bf16"}};

// The level of the whole process, set by main.
struct Run {
  const Level* level = nullptr;
  // Why this process has no bits to compare; empty: it has.
  std::string cannot;
  // Folder of fixtures to write; empty: compare.
  std::string record;
};
Run& TheRun() {
  static Run* const run = new Run;
  return *run;
}

std::string Compiler() {
#if defined(MUSTER_SANITIZED)
  constexpr char kSanitized[] = "-sanitized";
#else
  constexpr char kSanitized[] = "";
#endif
#if defined(__clang__)
  return absl::StrCat("clang-", __clang_major__, kSanitized);
#else
  return absl::StrCat("gcc-", __GNUC__, kSanitized);
#endif
}

// Such as "AuthenticAMD-25-17": vendor, family and model.
std::string Processor() {
  std::ifstream file("/proc/cpuinfo");
  std::map<std::string, std::string> fields;
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const std::pair<std::string, std::string> field = absl::StrSplit(line, absl::MaxSplits(':', 1));
    fields[std::string(absl::StripTrailingAsciiWhitespace(field.first))] =
        std::string(absl::StripAsciiWhitespace(field.second));
  }
  return absl::StrCat(fields["vendor_id"], "-", fields["cpu family"], "-", fields["model"]);
}

// The facts that a fixture's bits depend on, as its "needs" lines: name and value.
std::map<std::string, std::string> Needs() {
  const dnnl_version_t* const dnnl = dnnl_version();
  std::map<std::string, std::string> needs = {
      {"compiler", Compiler()},
      {"onednn", absl::StrCat(dnnl->major, ".", dnnl->minor)},
      {"libc", gnu_get_libc_version()}};
  if (TheRun().level->of_one_model) needs["processor"] = Processor();
  return needs;
}

struct Fixture {
  std::map<std::string, std::string> needs;
  // A record's lines by the job's name.
  std::map<std::string, std::string> jobs;
};

std::string PathIn(const std::string& folder, const std::string& file) {
  return absl::StrCat(folder, "/", TheRun().level->name, "/", file, ".txt");
}

// Empty where there is none.
Fixture ReadFixture(const std::string& path) {
  std::ifstream file(path);
  Fixture fixture;
  std::string* job = nullptr;
  for (std::string line; std::getline(file, line);) {
    absl::string_view rest = line;
    if (rest.empty() || rest[0] == '#') continue;
    if (absl::ConsumePrefix(&rest, "needs ")) {
      const std::pair<std::string, std::string> need =
          absl::StrSplit(rest, absl::MaxSplits(' ', 1));
      fixture.needs.insert(need);
    } else if (absl::ConsumePrefix(&rest, "job ")) {
      job = &fixture.jobs[std::string(rest)];
    } else if (job != nullptr) {
      absl::StrAppend(job, line, "\n");
    }
  }
  return fixture;
}

void WriteFixture(const std::string& path, const Fixture& fixture) {
  std::ofstream file(path);
  file << "# Recorded by golden_test.cc, whose head says when that is allowed.\n";
  for (const auto& [name, value] : fixture.needs) file << "needs " << name << " " << value << "\n";
  for (const auto& [name, lines] : fixture.jobs) file << "\njob " << name << "\n" << lines;
  ASSERT_TRUE(file.flush().good()) << "cannot write " << path << " (does its folder exist?)";
}

// Why this machine may have other bits than the fixture; empty: it may not.
std::string Unfit(const Fixture& fixture) {
  for (const auto& [name, value] : Needs()) {
    const auto found = fixture.needs.find(name);
    const std::string recorded = found == fixture.needs.end() ? "nothing" : found->second;
    if (recorded != value) {
      return absl::StrCat("the fixture was recorded with ", name, " ", recorded, ", this is ",
                          value);
    }
  }
  return "";
}

class GoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Every job has its text and its servers' files here.
  static const std::vector<GoldenJob>& Jobs() {
    static const TempFolder* const folder = new TempFolder;
    static const auto* const jobs = new std::vector<GoldenJob>(GoldenJobs(WriteText(*folder)));
    return *jobs;
  }

  static std::string WriteText(const TempFolder& folder) {
    const std::string path = folder.path() + "/text";
    std::ofstream file(path);
    for (int i = 0; i < 60; ++i) file << "the quick brown fox number " << i * i << " jumps\n";
    return path;
  }

  static const GoldenJob& Job(const std::string& param) {
    for (const GoldenJob& job : Jobs()) {
      if (absl::StrCat(job.file, "_", job.name) == param) return job;
    }
    std::abort();
  }

  static void Record(const GoldenJob& job, const GoldenRecord& record) {
    const std::string path = PathIn(TheRun().record, job.file);
    Fixture fixture = ReadFixture(path);
    fixture.needs = Needs();
    fixture.jobs[job.name] = FormatGoldenRecord(record);
    WriteFixture(path, fixture);
  }
};

std::vector<std::string> Params() {
  std::vector<std::string> params;
  const char* const file = TheRun().level->file;
  for (const GoldenJob& job : GoldenJobs("")) {
    if (file != nullptr && job.file != file) continue;
    params.push_back(absl::StrCat(job.file, "_", job.name));
  }
  return params;
}

TEST_P(GoldenTest, BitsAreThoseThatWereRecorded) {
  if (!TheRun().cannot.empty()) GTEST_SKIP() << TheRun().cannot;
  const GoldenJob& job = Job(GetParam());
  const bool recording = !TheRun().record.empty();
  const Fixture fixture = ReadFixture(PathIn(kFixtures, job.file));
  const auto found = fixture.jobs.find(job.name);
  ASSERT_TRUE(recording || found != fixture.jobs.end()) << "the fixture has no such job; record it";
  const GoldenRecord actual = RunGoldenJob(job);
  if (HasFailure()) return;
  if (recording) return Record(job, actual);
  const auto expected = ParseGoldenRecord(found->second);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const std::vector<std::string> differences = DescribeDifferences(actual, *expected);
  if (differences.empty()) return;
  const std::string unfit = Unfit(fixture);
  if (!unfit.empty()) GTEST_SKIP() << unfit << "; the first difference: " << differences[0];
  constexpr size_t kShown = 12;
  const size_t shown = std::min(kShown, differences.size());
  ADD_FAILURE() << differences.size() << " differences, the first first:\n  "
                << absl::StrJoin(differences.begin(), differences.begin() + shown, "\n  ")
                << "\nLast bits of samples and losses mean another rounding or order of sums; "
                   "more, a bug. The file's head says when to record anew.";
}

INSTANTIATE_TEST_SUITE_P(Jobs, GoldenTest, ::testing::ValuesIn(Params()),
                         [](const auto& info) { return info.param; });

// Takes the flags that are not gtest's, before gtest asks for the level's tests. Returns an error,
// or "".
std::string TakeFlags(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    if (absl::ConsumePrefix(&flag, "--level=")) {
      for (const Level& level : kLevels) {
        if (flag == level.name) TheRun().level = &level;
      }
    } else if (absl::ConsumePrefix(&flag, "--record=")) {
      TheRun().record = std::string(flag);
    } else if (!absl::StartsWith(flag, "--gtest_")) {
      return absl::StrCat("unknown flag ", argv[i]);
    }
  }
  return TheRun().level == nullptr ? "--level=avx2, avx512 or avx512_bf16 is wanted" : "";
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::Run& run = muster::TheRun();
  const std::string error = muster::TakeFlags(argc, argv);
  if (!error.empty()) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return 2;
  }
  ::testing::InitGoogleTest(&argc, argv);
  const absl::Status limited = muster::LimitInstructionsForTesting(run.level->limit);
  if (absl::IsUnimplemented(limited)) {
    run.cannot = std::string(limited.message());
  } else if (!limited.ok()) {
    std::fprintf(stderr, "%s\n", std::string(limited.message()).c_str());
    return 2;
  }
  return RUN_ALL_TESTS();
}
