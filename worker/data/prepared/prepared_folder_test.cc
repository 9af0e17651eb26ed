#include "worker/data/prepared/prepared_folder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/compression/packed_for_testing.h"
#include "common/documents/tokenize_documents.h"
#include "common/files/bytes_of_file.h"
#include "common/files/temp_folder.h"
#include "common/tokenizer/bpe/byte_tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
namespace fs = std::filesystem;

constexpr uint64_t kPlenty = uint64_t{1} << 30;

class PreparedFolderTest : public testing::Test {
 protected:
  std::string Folder() const { return temp_.path() + "/prepared"; }

  PreparedFolder::Options Options(uint64_t most_bytes = kPlenty) const {
    PreparedFolder::Options options;
    options.folder = Folder();
    options.most_bytes = most_bytes;
    options.threads = 2;
    options.tokenize.batch_bytes = 200;
    options.tokenize.keep_bytes = 400;
    return options;
  }

  // Writes a source of so many documents.
  PreparedSource Source(const std::string& name, int lines) const {
    std::string text;
    for (int i = 0; i < lines; ++i) absl::StrAppend(&text, "{\"text\": \"line ", i, "\"}\n");
    return {.path = temp_.Write(name, Gzip(text)), .tokenizer = "bytes", .arguments = {}};
  }

  // Returns the bytes of the token file that `muster data tokenize` makes.
  std::string Tokenized(const PreparedSource& source) const {
    const auto documents = FindDocuments(source.path);
    const auto options = OpenSourceOptions(source.arguments, source.tokenizer);
    const std::string out = temp_.path() + "/tokenized";
    EXPECT_TRUE(
        MakeTokenFile(*documents, options->documents, ByteTokenizer(), {}, out, Replace::kFiles)
            .ok());
    return BytesOfFile(out);
  }

  // Returns the paths of the folder's files whose names end like this.
  std::vector<std::string> Files(const std::string& ending) const {
    std::vector<std::string> paths;
    if (!fs::exists(Folder())) return paths;
    for (const auto& entry : fs::directory_iterator(Folder())) {
      if (absl::EndsWith(entry.path().string(), ending)) paths.push_back(entry.path().string());
    }
    return paths;
  }

  const TempFolder temp_;
};

TEST_F(PreparedFolderTest, MakesTheFileOfTokenizeOnce) {
  const PreparedSource source = Source("a.jsonl.gz", 100);
  std::vector<std::string> told;
  PreparedFolder::Options options = Options();
  options.tell = [&told](absl::string_view text) { told.emplace_back(text); };
  const PreparedFolder folder(options);
  const auto first = folder.Prepare(source);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(told, Contains(HasSubstr("a.jsonl.gz: 0 %")));
  EXPECT_THAT(told, Contains(HasSubstr("a.jsonl.gz: 100 %")));
  EXPECT_EQ(told.back(), "");
  ASSERT_THAT(Files(".tokens"), SizeIs(1));
  EXPECT_TRUE(BytesOfFile(Files(".tokens")[0]) == Tokenized(source));
  EXPECT_THAT(Files(".partial"), IsEmpty());
  told.clear();
  const auto again = folder.Prepare(source);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(told, IsEmpty());
  EXPECT_EQ((*again)->file().fingerprint(), (*first)->file().fingerprint());
  // A source that was changed is another one.
  ASSERT_TRUE(folder.Prepare(Source("a.jsonl.gz", 101)).ok());
  EXPECT_THAT(told, Not(IsEmpty()));
  EXPECT_THAT(Files(".tokens"), SizeIs(2));
}

TEST_F(PreparedFolderTest, ATaskThatIsKilledAnywhereLeavesNothingWrong) {
  const PreparedSource source = Source("a.jsonl.gz", 200);
  const std::string expected = Tokenized(source);
  for (const std::string at : {"locked", "added", "later", "made"}) {
    fs::remove_all(Folder());
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      PreparedFolder::Options options = Options();
      options.passes = [&at, added = 0](absl::string_view point) mutable {
        added += point == "added" ? 1 : 0;
        if (point == at || (at == "later" && added == 6)) raise(SIGKILL);
      };
      (void)PreparedFolder(options).Prepare(source);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << at;
    EXPECT_EQ(Files(".tokens").size(), at == "made" ? 1u : 0u) << at;
    EXPECT_EQ(Files(".partial").empty(), at == "locked" || at == "made") << at;
    const auto prepared = PreparedFolder(Options()).Prepare(source);
    ASSERT_TRUE(prepared.ok()) << at << ": " << prepared.status();
    ASSERT_THAT(Files(".tokens"), SizeIs(1));
    EXPECT_TRUE(BytesOfFile(Files(".tokens")[0]) == expected) << at;
    EXPECT_THAT(Files(".partial"), IsEmpty()) << at;
    EXPECT_THAT(Files(".progress"), IsEmpty()) << at;
  }
}

TEST_F(PreparedFolderTest, OneTaskMakesAFileAndOthersWait) {
  const PreparedSource source = Source("a.jsonl.gz", 100);
  std::vector<std::string> told;
  PreparedFolder::Options waits = Options();
  waits.tell = [&told](absl::string_view text) { told.emplace_back(text); };
  std::thread other;
  PreparedFolder::Options makes = Options();
  makes.passes = [&](absl::string_view point) {
    if (point != "locked") return;
    other = std::thread([&] { EXPECT_TRUE(PreparedFolder(waits).Prepare(source).ok()); });
  };
  EXPECT_TRUE(PreparedFolder(makes).Prepare(source).ok());
  other.join();
  // It waited, or came when the file was there.
  EXPECT_THAT(told, Not(Contains(HasSubstr("preparing"))));
  EXPECT_THAT(Files(".tokens"), SizeIs(1));
}

TEST_F(PreparedFolderTest, WhatWasNotUsedForLongestGoes) {
  const PreparedSource a = Source("a.gz", 300), b = Source("b.gz", 300), c = Source("c.gz", 300);
  const uint64_t bytes = Tokenized(a).size();
  const PreparedFolder folder(Options(2 * bytes + bytes / 2));
  ASSERT_TRUE(folder.Prepare(a).ok());
  const std::string of_a = Files(".tokens").at(0);
  // As if it had been long ago.
  fs::last_write_time(of_a, fs::last_write_time(of_a) - std::chrono::hours(2));
  auto in_use = folder.Prepare(b);
  ASSERT_TRUE(in_use.ok()) << in_use.status();
  ASSERT_THAT(Files(".tokens"), SizeIs(2));
  for (const std::string& path : Files(".tokens")) {
    if (path != of_a) fs::last_write_time(path, fs::last_write_time(path) - std::chrono::hours(1));
  }
  // Using it makes it the newest.
  ASSERT_TRUE(folder.Prepare(a).ok());
  // b is the oldest, but in use.
  ASSERT_TRUE(folder.Prepare(c).ok());
  EXPECT_THAT(Files(".tokens"), SizeIs(2));
  EXPECT_THAT(Files(".tokens"), Not(Contains(of_a)));
  (*in_use).reset();
  for (const std::string& path : Files(".tokens")) {
    fs::last_write_time(path, fs::last_write_time(path) - std::chrono::hours(1));
  }
  const auto two = folder.Prepare(a);
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_THAT(Files(".tokens"), SizeIs(2));
  const auto third = folder.Prepare(b);
  ASSERT_TRUE(third.ok()) << third.status();
  const auto none = folder.Prepare(c);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kResourceExhausted) << none.status();
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("--prepared-bytes"));
}

TEST_F(PreparedFolderTest, RefusesWhatOthersCanChangeAndWhatIsNoSource) {
  const PreparedSource source = Source("a.gz", 3);
  fs::create_directory(Folder());
  fs::permissions(Folder(), fs::perms::all);
  const PreparedFolder folder(Options());
  EXPECT_EQ(folder.Prepare(source).status().code(), absl::StatusCode::kFailedPrecondition);
  fs::permissions(Folder(), fs::perms::owner_all);
  ASSERT_TRUE(folder.Prepare(source).ok());
  PreparedSource tokens = source;
  tokens.path = Files(".tokens").at(0);
  EXPECT_THAT(std::string(folder.Prepare(tokens).status().message()), HasSubstr("token files"));
  PreparedSource none = source;
  none.tokenizer = "";
  EXPECT_THAT(std::string(folder.Prepare(none).status().message()),
              HasSubstr("no tokenizer is named"));
  none = source;
  none.path = temp_.Write("wrong", "{\"text\": \"a\"}\n{\"text\": 7}\n");
  EXPECT_THAT(std::string(folder.Prepare(none).status().message()), HasSubstr("wrong:2: "));
  EXPECT_THAT(Files(".partial"), IsEmpty());
}

TEST_F(PreparedFolderTest, ADamagedFileIsMadeAgain) {
  const PreparedSource source = Source("a.gz", 30);
  const PreparedFolder folder(Options());
  ASSERT_TRUE(folder.Prepare(source).ok());
  const std::string path = Files(".tokens").at(0);
  fs::resize_file(path, 200);
  const auto again = folder.Prepare(source);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(BytesOfFile(path) == Tokenized(source));
}

}  // namespace
}  // namespace muster
