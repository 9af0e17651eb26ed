#include "common/program/folder_archive.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/memory_storage.h"
#include "common/program/content_hash.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

using Kind = ArchiveEntry::Kind;

// Writes down what it takes.
class Recorder final : public ArchiveSink {
 public:
  absl::Status Begin(const ArchiveEntry& entry) override {
    entries.push_back(absl::StrCat(std::string(1, static_cast<char>(entry.kind)), " ", entry.path,
                                   " ", entry.bytes, " "));
    return absl::OkStatus();
  }
  absl::Status Content(absl::string_view bytes) override {
    if (entries.back().size() < 100) absl::StrAppend(&entries.back(), bytes.substr(0, 100));
    content_bytes += bytes.size();
    return absl::OkStatus();
  }
  absl::Status End() override {
    absl::StrAppend(&entries.back(), ".");
    return absl::OkStatus();
  }

  std::vector<std::string> entries;
  uint64_t content_bytes = 0;
};

std::string NameOf(const std::string& archive) {
  ContentHash hash;
  hash.Add(archive);
  return hash.Name();
}

absl::Status Read(const std::string& archive, Recorder& recorder, std::string name = "") {
  MemoryStorage storage;
  EXPECT_TRUE(ReplaceFile(storage, "/archive", archive).ok());
  const auto reader = storage.Open("/archive");
  EXPECT_TRUE(reader.ok()) << reader.status();
  return ReadArchive(**reader, name.empty() ? NameOf(archive) : name, recorder);
}

absl::Status Read(const std::string& archive) {
  Recorder recorder;
  return Read(archive, recorder);
}

struct Item {
  Kind kind;
  std::string path;
  std::string content;
};

std::string Archive(const std::vector<Item>& items) {
  std::string archive;
  ArchiveWriter writer(archive);
  for (const Item& item : items) writer.Add({item.kind, item.path}, item.content);
  writer.End();
  return archive;
}

TEST(FolderArchiveTest, WhatIsWrittenIsRead) {
  const std::string archive = Archive({{Kind::kFolder, "a", ""},
                                       {Kind::kFile, "a/empty", ""},
                                       {Kind::kFile, "a/text", "some text"},
                                       {Kind::kExecutable, "run.sh", "#!/bin/sh\n"}});
  Recorder recorder;
  EXPECT_EQ(Read(archive, recorder), absl::OkStatus());
  EXPECT_THAT(recorder.entries, ElementsAre("d a 0 .", "f a/empty 0 .", "f a/text 9 some text.",
                                            "x run.sh 10 #!/bin/sh\n."));
  EXPECT_EQ(Read(Archive({})), absl::OkStatus());
}

// The Python package writes the same bytes, by a test of its own.
TEST(FolderArchiveTest, TheFormStays) {
  using namespace std::string_literals;
  EXPECT_EQ(Archive({{Kind::kFolder, "a", ""}, {Kind::kFile, "a/b", "cd"}}),
            "MUSTER FOLDER 1\nd\1\0\0\0af\3\0\0\0a/b\2\0\0\0\0\0\0\0cde"s);
}

TEST(FolderArchiveTest, LargeFilesComeInParts) {
  const std::string content(3 << 20, 'x');
  Recorder recorder;
  EXPECT_EQ(Read(Archive({{Kind::kFile, "large", content}}), recorder), absl::OkStatus());
  EXPECT_EQ(recorder.content_bytes, content.size());
}

TEST(FolderArchiveTest, PathsThatLeadOutAreRefused) {
  const std::string long_part(256, 'a');
  for (const std::string& path :
       {std::string(), std::string("/etc/passwd"), std::string(".."), std::string("../a"),
        std::string("."), std::string("a//b"), std::string("a/"), std::string("a/../../b"),
        std::string("a\0b", 3), long_part}) {
    const absl::Status status = Read(Archive({{Kind::kFolder, "a", ""}, {Kind::kFile, path, ""}}));
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << path;
    Recorder recorder;
    Read(Archive({{Kind::kFile, path, "evil"}}), recorder).IgnoreError();
    EXPECT_THAT(recorder.entries, SizeIs(0)) << path;
  }
}

// A file cannot be taken for a folder later, so there is no way to put something in the place of a
// link.
TEST(FolderArchiveTest, EveryPathComesOnceInOrderAndAfterItsFolder) {
  EXPECT_THAT(
      std::string(Read(Archive({{Kind::kFile, "b", ""}, {Kind::kFile, "a", ""}})).message()),
      HasSubstr("\"a\" is out of order"));
  EXPECT_THAT(
      std::string(Read(Archive({{Kind::kFile, "a", ""}, {Kind::kFile, "a", "x"}})).message()),
      HasSubstr("\"a\" is out of order"));
  EXPECT_THAT(
      std::string(Read(Archive({{Kind::kFile, "a", ""}, {Kind::kFile, "a/b", ""}})).message()),
      HasSubstr("\"a/b\" is in a folder that did not come"));
}

TEST(FolderArchiveTest, LinksAndOtherKindsAreRefused) {
  std::string archive = Archive({{Kind::kFile, "a", "target"}});
  archive[archive.find('f')] = 'l';
  EXPECT_THAT(std::string(Read(archive).message()), HasSubstr("neither folder, file nor end"));
}

TEST(FolderArchiveTest, LengthsBeyondTheArchiveAreRefusedBeforeTheyAreRead) {
  const std::string good = Archive({{Kind::kFile, "a", "content"}});
  std::string content = good;
  content[good.find("content") - 2] = '\x7f';
  EXPECT_THAT(std::string(Read(content).message()), HasSubstr("a file ends beyond it"));
  std::string path = good;
  path[good.find('f') + 4] = '\x7f';
  EXPECT_THAT(std::string(Read(path).message()), HasSubstr("a path is too long"));
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_EQ(Read(good.substr(0, bytes)).code(), absl::StatusCode::kDataLoss) << bytes;
  }
}

TEST(FolderArchiveTest, NothingFollowsTheEnd) {
  EXPECT_THAT(std::string(Read(absl::StrCat(Archive({}), "x")).message()),
              HasSubstr("bytes follow its end"));
}

TEST(FolderArchiveTest, TooManyEntriesAreRefused) {
  std::vector<Item> items;
  for (size_t i = 0; i < kMostArchiveEntries; ++i) {
    items.push_back({Kind::kFile, absl::StrCat(100000 + i), ""});
  }
  EXPECT_EQ(Read(Archive(items)), absl::OkStatus());
  items.push_back({Kind::kFile, "z", ""});
  EXPECT_THAT(std::string(Read(Archive(items)).message()), HasSubstr("more than 10000 files"));
}

TEST(FolderArchiveTest, OtherBytesThanTheNameSaysAreRefused) {
  const std::string good = Archive({{Kind::kFile, "a", "content"}});
  std::string changed = good;
  changed[good.find("content")] = 'C';
  Recorder recorder;
  const absl::Status status = Read(changed, recorder, NameOf(good));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not those that its name says"));
}

}  // namespace
}  // namespace muster
