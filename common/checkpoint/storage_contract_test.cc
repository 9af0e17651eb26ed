// What every CheckpointStorage must do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/byte_text.h"
#include "common/checkpoint/local_storage.h"
#include "common/checkpoint/memory_storage.h"
#include "common/checkpoint/storage.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Implementation {
  std::string name;
  std::function<std::unique_ptr<CheckpointStorage>()> make;
};

class StorageContractTest : public ::testing::TestWithParam<Implementation> {
 protected:
  void SetUp() override {
    const ::testing::TestInfo& info = *::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = absl::StrCat(info.name());
    for (char& c : name) c = c == '/' ? '_' : c;
    root_ = JoinUri(::testing::TempDir(), "storage_" + name);
    storage_ = GetParam().make();
    ASSERT_TRUE(storage_->DeleteRecursively(root_).ok());
  }

  void TearDown() override { EXPECT_TRUE(storage_->DeleteRecursively(root_).ok()); }

  std::string Uri(absl::string_view name) const { return JoinUri(root_, name); }

  std::unique_ptr<CheckpointStorage> storage_;
  std::string root_;
};

TEST_P(StorageContractTest, ReadsWhatWasWritten) {
  ASSERT_TRUE(WriteFile(*storage_, Uri("a/b/file"), "hello").ok());
  EXPECT_EQ(ReadFile(*storage_, Uri("a/b/file")).value(), "hello");
  ASSERT_TRUE(WriteFile(*storage_, Uri("a/b/empty"), "").ok());
  EXPECT_EQ(ReadFile(*storage_, Uri("a/b/empty")).value(), "");
}

TEST_P(StorageContractTest, WritesAsAStream) {
  std::string expected;
  const auto file = storage_->Create(Uri("file"));
  ASSERT_TRUE(file.ok()) << file.status();
  for (int i = 0; i < 1000; ++i) {
    const std::string part(i, static_cast<char>('a' + i % 26));
    ASSERT_TRUE((*file)->Append(AsBytes(part)).ok());
    expected += part;
  }
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_EQ(ReadFile(*storage_, Uri("file")).value(), expected);
}

TEST_P(StorageContractTest, AFileIsInvisibleBeforeCommit) {
  auto file = storage_->Create(Uri("folder/file"));
  ASSERT_TRUE((*file)->Append(AsBytes("hello")).ok());
  EXPECT_FALSE(storage_->Exists(Uri("folder/file")).value());
  EXPECT_TRUE(absl::IsNotFound(storage_->Open(Uri("folder/file")).status()));
  ASSERT_TRUE(WriteFile(*storage_, Uri("folder/other"), "x").ok());
  EXPECT_THAT(storage_->List(Uri("folder")).value(), ElementsAre("other"));
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_THAT(storage_->List(Uri("folder")).value(), ElementsAre("file", "other"));
}

TEST_P(StorageContractTest, AnAbandonedWriteLeavesNothing) {
  {
    auto file = storage_->Create(Uri("file"));
    ASSERT_TRUE((*file)->Append(AsBytes("new")).ok());
  }
  EXPECT_FALSE(storage_->Exists(Uri("file")).value());
  ASSERT_TRUE(WriteFile(*storage_, Uri("file"), "another").ok());
  EXPECT_THAT(storage_->List(root_).value(), ElementsAre("file"));
}

TEST_P(StorageContractTest, AFileIsNeverReplaced) {
  const auto slow = storage_->Create(Uri("file"));
  ASSERT_TRUE((*slow)->Append(AsBytes("slow")).ok());
  ASSERT_TRUE(WriteFile(*storage_, Uri("file"), "first").ok());
  const absl::Status late = (*slow)->Commit();
  EXPECT_TRUE(absl::IsAlreadyExists(late)) << late;
  EXPECT_THAT(late.message(), HasSubstr(Uri("file")));
  const absl::Status again = storage_->Create(Uri("file")).status();
  EXPECT_TRUE(absl::IsAlreadyExists(again)) << again;
  EXPECT_THAT(again.message(), HasSubstr(Uri("file")));
  EXPECT_EQ(ReadFile(*storage_, Uri("file")).value(), "first");
  EXPECT_THAT(storage_->List(root_).value(), ElementsAre("file"));
  // Who wants another one deletes it first.
  ASSERT_TRUE(storage_->DeleteRecursively(Uri("file")).ok());
  ASSERT_TRUE(WriteFile(*storage_, Uri("file"), "second").ok());
  EXPECT_EQ(ReadFile(*storage_, Uri("file")).value(), "second");
}

TEST_P(StorageContractTest, NothingCanFollowCommit) {
  auto file = storage_->Create(Uri("file"));
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition((*file)->Append(AsBytes("x"))));
  EXPECT_TRUE(absl::IsFailedPrecondition((*file)->Commit()));
}

TEST_P(StorageContractTest, AnOpenReaderKeepsItsContents) {
  ASSERT_TRUE(WriteFile(*storage_, Uri("file"), "old contents").ok());
  const auto reader = storage_->Open(Uri("file"));
  ASSERT_TRUE(ReplaceFile(*storage_, Uri("file"), "new").ok());
  EXPECT_EQ((*reader)->size(), 12u);
  std::string read(12, ' ');
  ASSERT_TRUE((*reader)->Read(0, {reinterpret_cast<std::byte*>(read.data()), 12}).ok());
  EXPECT_EQ(read, "old contents");
}

TEST_P(StorageContractTest, ReadsRanges) {
  ASSERT_TRUE(WriteFile(*storage_, Uri("file"), "0123456789").ok());
  const auto reader = storage_->Open(Uri("file"));
  ASSERT_TRUE(reader.ok());
  for (uint64_t begin = 0; begin <= 12; ++begin) {
    for (uint64_t length = 0; length <= 12; ++length) {
      std::string read(length, ' ');
      const absl::Status status =
          (*reader)->Read(begin, {reinterpret_cast<std::byte*>(read.data()), length});
      if (length == 0 && begin > 10) continue;
      if (begin + length <= 10) {
        EXPECT_TRUE(status.ok()) << status;
        EXPECT_EQ(read, std::string("0123456789").substr(begin, length));
      } else {
        EXPECT_TRUE(absl::IsOutOfRange(status)) << begin << " " << length << " " << status;
        EXPECT_THAT(status.message(), HasSubstr(Uri("file")));
      }
    }
  }
}

TEST_P(StorageContractTest, ListsFilesAndFoldersSorted) {
  for (const char* name : {"b/1", "b-c", "a", "b/2", "b.d"}) {
    ASSERT_TRUE(WriteFile(*storage_, Uri(name), name).ok());
  }
  EXPECT_THAT(storage_->List(root_).value(), ElementsAre("a", "b", "b-c", "b.d"));
  EXPECT_THAT(storage_->List(absl::StrCat("file://", root_, "/b/")).value(), ElementsAre("1", "2"));
  const absl::Status missing = storage_->List(Uri("c")).status();
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_THAT(missing.message(), HasSubstr(Uri("c")));
}

TEST_P(StorageContractTest, Exists) {
  ASSERT_TRUE(WriteFile(*storage_, Uri("folder/file"), "x").ok());
  EXPECT_TRUE(storage_->Exists(Uri("folder")).value());
  EXPECT_TRUE(storage_->Exists(Uri("folder/file")).value());
  EXPECT_FALSE(storage_->Exists(Uri("fold")).value());
  EXPECT_FALSE(storage_->Exists(Uri("folder/file/below")).value());
}

TEST_P(StorageContractTest, DeletesRecursively) {
  for (const char* name : {"a/b/c", "a/d", "a-b", "ab"}) {
    ASSERT_TRUE(WriteFile(*storage_, Uri(name), name).ok());
  }
  ASSERT_TRUE(storage_->DeleteRecursively(Uri("a")).ok());
  EXPECT_THAT(storage_->List(root_).value(), ElementsAre("a-b", "ab"));
  ASSERT_TRUE(storage_->DeleteRecursively(Uri("ab")).ok());
  EXPECT_THAT(storage_->List(root_).value(), ElementsAre("a-b"));
  EXPECT_TRUE(storage_->DeleteRecursively(Uri("a")).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(storage_->DeleteRecursively("/")));
}

TEST_P(StorageContractTest, AFolderIsNoFile) {
  ASSERT_TRUE(WriteFile(*storage_, Uri("a/b"), "x").ok());
  EXPECT_FALSE(ReadFile(*storage_, Uri("a")).ok());
  EXPECT_FALSE(WriteFile(*storage_, Uri("a"), "x").ok());
  EXPECT_FALSE(WriteFile(*storage_, Uri("a/b/c"), "x").ok());
  EXPECT_EQ(ReadFile(*storage_, Uri("a/b")).value(), "x");
}

TEST_P(StorageContractTest, RefusesOtherUrisAndNamesTheKnownSchemes) {
  for (const char* uri : {"s3://bucket/key", "relative/path", "file://host/path", "file:///a/../b",
                          "/a/../b", "", "file:///%g0", "file:///%4"}) {
    for (const absl::Status& status :
         {WriteFile(*storage_, uri, "x"), ReadFile(*storage_, uri).status(),
          storage_->List(uri).status(), storage_->Exists(uri).status(),
          storage_->DeleteRecursively(uri)}) {
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << uri << ": " << status;
    }
  }
  const absl::Status status = storage_->Exists("s3://bucket/key").status();
  EXPECT_THAT(status.message(), HasSubstr("'s3'"));
  EXPECT_THAT(status.message(), HasSubstr("file:///absolute/path"));
}

TEST_P(StorageContractTest, UriFormsNameOneFile) {
  ASSERT_TRUE(WriteFile(*storage_, Uri("a b"), "x").ok());
  EXPECT_EQ(ReadFile(*storage_, absl::StrCat("file://", root_, "/a%20b")).value(), "x");
  EXPECT_EQ(ReadFile(*storage_, absl::StrCat(root_, "//./a b")).value(), "x");
}

TEST_P(StorageContractTest, ProbeLeavesNothing) {
  ASSERT_TRUE(WriteFile(*storage_, Uri("file"), "x").ok());
  EXPECT_TRUE(ProbeStorage(*storage_, root_).ok());
  EXPECT_THAT(storage_->List(root_).value(), ElementsAre("file"));
  // The folder itself is a file: nothing can be kept there.
  EXPECT_FALSE(ProbeStorage(*storage_, Uri("file")).ok());
}

TEST_P(StorageContractTest, ProbeNamesTheFolderThatItWasGiven) {
  const absl::Status status = ProbeStorage(*storage_, "relative/path");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("'relative/path'"));
}

TEST_P(StorageContractTest, OfManyWritersOfOneFileOneWins) {
  constexpr int kThreads = 4;
  constexpr int kFiles = 20;
  std::atomic<int> written = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, i, &written] {
      for (int round = 0; round < kFiles; ++round) {
        const std::string uri = Uri(absl::StrCat("shared/", round));
        const std::string mine(1000, static_cast<char>('a' + i));
        const absl::Status status = WriteFile(*storage_, uri, mine);
        EXPECT_TRUE(status.ok() || absl::IsAlreadyExists(status)) << status;
        const std::string read = ReadFile(*storage_, uri).value();
        EXPECT_EQ(read, std::string(1000, read[0]));
        EXPECT_TRUE(!status.ok() || read == mine);
        written += status.ok();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(written, kFiles);
  EXPECT_EQ(storage_->List(Uri("shared"))->size(), kFiles);
}

INSTANTIATE_TEST_SUITE_P(
    All, StorageContractTest,
    ::testing::Values(Implementation{"Local", [] { return std::make_unique<LocalStorage>(); }},
                      Implementation{"Memory", [] { return std::make_unique<MemoryStorage>(); }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace muster
