#include "server/shard/storage/log_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/byte_text.h"
#include "server/shard/storage/fake_log_file.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;
using Mode = LogFileSystem::Mode;

std::string ReadAll(LogFile& file) {
  std::string bytes(file.Size().value(), '?');
  EXPECT_EQ(file.Read(0, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}).value(),
            bytes.size());
  return bytes;
}

struct NamedFileSystem {
  std::string name;
  std::function<LogFileSystem*()> get;
};

// What both file systems must do.
class LogFileContractTest : public ::testing::TestWithParam<NamedFileSystem> {
 protected:
  void SetUp() override {
    files_ = GetParam().get();
    directory_ = absl::StrCat(::testing::TempDir(), "log_file_test");
    if (directory_[0] != '/') directory_ = "/" + directory_;
    Clear();
    ASSERT_TRUE(files_->CreateDirectory(directory_).ok());
  }
  void TearDown() override { Clear(); }

  void Clear() {
    const auto names = files_->List(directory_);
    if (!names.ok()) return;
    for (const std::string& name : *names) {
      ASSERT_TRUE(files_->Remove(absl::StrCat(directory_, "/", name)).ok());
    }
    ASSERT_TRUE(files_->Remove(directory_).ok());
  }

  std::string Path(const char* name) const { return absl::StrCat(directory_, "/", name); }

  LogFileSystem* files_ = nullptr;
  std::string directory_;
};

TEST_P(LogFileContractTest, WritesPiecesInOrder) {
  auto file = files_->Open(Path("file"), Mode::kCreate);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Allocate(16).ok());
  EXPECT_EQ((*file)->Size().value(), 16u);
  EXPECT_EQ((*file)->Write(3, {AsBytes("ab"), AsBytes(""), AsBytes("cde")}).value(), 5u);
  ASSERT_TRUE((*file)->Sync().ok());
  EXPECT_EQ(ReadAll(**file), std::string("\0\0\0abcde\0\0\0\0\0\0\0\0", 16));
  std::byte out[10];
  EXPECT_EQ((*file)->Read(12, absl::MakeSpan(out)).value(), 4u);
  EXPECT_EQ((*file)->Read(16, absl::MakeSpan(out)).value(), 0u);
}

TEST_P(LogFileContractTest, MoreAndLargerPiecesThanOneCallTakes) {
  auto file = files_->Open(Path("file"), Mode::kCreate);
  std::string expected;
  for (int i = 0; i < 5000; ++i) expected += absl::StrCat(i);
  std::vector<absl::Span<const std::byte>> pieces;
  for (size_t i = 0; i < expected.size(); i += 3) pieces.push_back(AsBytes(expected).subspan(i, 3));
  size_t done = 0;
  while (done < expected.size()) {
    const auto written = (*file)->Write(done, absl::MakeConstSpan(pieces));
    ASSERT_TRUE(written.ok()) << written.status();
    ASSERT_GT(*written, 0u);
    done += *written;
    // Both write whole pieces here.
    ASSERT_TRUE(*written % 3 == 0 || done == expected.size());
    pieces.erase(pieces.begin(), pieces.begin() + (*written + 2) / 3);
  }
  EXPECT_EQ(ReadAll(**file), expected);
}

TEST_P(LogFileContractTest, NamesAndModes) {
  EXPECT_TRUE(absl::IsNotFound(files_->Open(Path("a"), Mode::kOpen).status()));
  ASSERT_TRUE(files_->Open(Path("a"), Mode::kCreate).ok());
  auto b = files_->Open(Path("b"), Mode::kCreate);
  ASSERT_TRUE((*b)->Write(0, {AsBytes("b")}).ok());
  EXPECT_THAT(files_->List(directory_).value(), UnorderedElementsAre("a", "b"));
  ASSERT_TRUE(files_->Rename(Path("b"), Path("a")).ok());
  EXPECT_THAT(files_->List(directory_).value(), ElementsAre("a"));
  // An open file follows its renaming.
  ASSERT_TRUE((*b)->Write(1, {AsBytes("c")}).ok());
  EXPECT_EQ(ReadAll(*files_->Open(Path("a"), Mode::kOpen).value()), "bc");
  EXPECT_EQ(ReadAll(*files_->Open(Path("a"), Mode::kCreate).value()), "");
  EXPECT_TRUE(absl::IsNotFound(files_->Rename(Path("b"), Path("c"))));
  EXPECT_TRUE(absl::IsNotFound(files_->Remove(Path("b"))));
  EXPECT_FALSE(files_->Remove(directory_).ok());
  ASSERT_TRUE(files_->Remove(Path("a")).ok());
  EXPECT_TRUE(files_->SyncDirectory(directory_).ok());
  EXPECT_TRUE(files_->CreateDirectory(directory_).ok());
  EXPECT_TRUE(absl::IsNotFound(files_->List(Path("none")).status()));
}

INSTANTIATE_TEST_SUITE_P(All, LogFileContractTest,
                         ::testing::Values(NamedFileSystem{"Posix",
                                                           [] { return &LogFileSystem::Posix(); }},
                                           NamedFileSystem{"Fake",
                                                           []() -> LogFileSystem* {
                                                             static FakeLogFileSystem fake;
                                                             return &fake;
                                                           }}),
                         [](const auto& info) { return info.param.name; });

// A file system whose way past the cache ends with `error`; 0: it is one through the cache.
std::unique_ptr<LogFileSystem> WhereDirectIs(int error) {
  return LogFileSystem::PosixWith([error](int, const std::string& path) {
    if (error == 0) return ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    errno = error;
    return -1;
  });
}

TEST(PosixLogFileTest, GoesThroughTheCacheWhereThereIsNoWayPastIt) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/direct");
  alignas(LogFile::kBlockBytes) std::byte block[LogFile::kBlockBytes];
  std::fill(std::begin(block), std::end(block), std::byte{'b'});
  for (const int error : {0, EINVAL, EOPNOTSUPP}) {
    const auto files = WhereDirectIs(error);
    const auto file = files->Open(path, Mode::kCreate);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->keeps_space(), error == 0);
    ASSERT_TRUE((*file)->WriteBlocks(LogFile::kBlockBytes, {absl::MakeConstSpan(block)}).ok());
    EXPECT_EQ(ReadAll(**file).substr(LogFile::kBlockBytes), std::string(sizeof(block), 'b'));
  }
  // Such as too many open files, for now: to write through the cache would be another kind of file.
  EXPECT_TRUE(absl::IsResourceExhausted(WhereDirectIs(EMFILE)->Open(path, Mode::kOpen).status()));
  ASSERT_TRUE(LogFileSystem::Posix().Remove(path).ok());
}

// What a crash must be able to do, or the tests that use it would prove nothing.
TEST(FakeLogFileSystemTest, ACrashLosesSomeUnsyncedSectorsAndNames) {
  int lost = 0;
  int kept = 0;
  int names_lost = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    FakeLogFileSystem files;
    ASSERT_TRUE(files.CreateDirectory("/log").ok());
    auto file = files.Open("/log/a", Mode::kCreate);
    ASSERT_TRUE((*file)->Write(0, {AsBytes(std::string(2048, 's'))}).ok());
    ASSERT_TRUE((*file)->Sync().ok());
    ASSERT_TRUE(files.SyncDirectory("/").ok());
    ASSERT_TRUE(files.SyncDirectory("/log").ok());
    ASSERT_TRUE((*file)->Write(1024, {AsBytes(std::string(1024, 'u'))}).ok());
    ASSERT_TRUE(files.Rename("/log/a", "/log/b").ok());
    files.Crash(seed);
    ASSERT_NE(files.Exists("/log/a"), files.Exists("/log/b"));
    names_lost += files.Exists("/log/a");
    const std::string& after = files.contents(files.Exists("/log/a") ? "/log/a" : "/log/b");
    ASSERT_EQ(after.substr(0, 1024), std::string(1024, 's'));
    for (const size_t at : {1024, 1536}) {
      (after[at] == 'u' ? kept : lost) += 1;
      ASSERT_EQ(after.substr(at, 512), std::string(512, after[at]));
    }
  }
  EXPECT_GT(lost, 10);
  EXPECT_GT(kept, 10);
  EXPECT_GT(names_lost, 5);
  EXPECT_LT(names_lost, 45);
}

}  // namespace
}  // namespace muster
