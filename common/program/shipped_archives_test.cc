#include "common/program/shipped_archives.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/memory_storage.h"
#include "common/program/content_hash.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string ContentNameOf(absl::string_view content) {
  ContentHash hash;
  hash.Add(content);
  return hash.Name();
}

class ShippedArchivesTest : public testing::Test {
 protected:
  absl::Status Write(const std::string& content, const std::string& name) {
    auto writer = archives_.Create(name, content.size());
    if (!writer.ok()) return writer.status();
    const absl::Status appended = (*writer)->Append(content);
    return appended.ok() ? (*writer)->Commit() : appended;
  }
  std::string Uri(const std::string& name) { return *ShippedArchiveUri("/root", name); }

  MemoryStorage storage_;
  ShippedArchives archives_{storage_, "/root"};
};

TEST_F(ShippedArchivesTest, AnArchiveIsThereOnceItIsWhole) {
  const std::string name = ContentNameOf("content");
  EXPECT_THAT(*archives_.List(), IsEmpty());
  EXPECT_FALSE(*archives_.Has(name));
  auto writer = archives_.Create(name, 7);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_TRUE((*writer)->Append("cont").ok());
  EXPECT_TRUE((*writer)->Append("ent").ok());
  EXPECT_FALSE(*archives_.HasSound(name, 7));
  EXPECT_TRUE((*writer)->Commit().ok());
  EXPECT_TRUE(*archives_.Has(name));
  EXPECT_TRUE(*archives_.HasSound(name, 7));
  EXPECT_THAT(*archives_.List(), ElementsAre(name));
  EXPECT_EQ(Uri(name), absl::StrCat("/root/shipped/", name, "/archive"));
  EXPECT_TRUE(archives_.Remove(name).ok());
  EXPECT_FALSE(*archives_.Has(name));
  EXPECT_TRUE(archives_.Remove(name).ok());
}

TEST_F(ShippedArchivesTest, TwoWritersOfTheSameContentBothSucceed) {
  const std::string name = ContentNameOf("content");
  auto first = archives_.Create(name, 7), second = archives_.Create(name, 7);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE((*first)->Append("content").ok() && (*second)->Append("content").ok());
  EXPECT_EQ((*first)->Commit(), absl::OkStatus());
  EXPECT_EQ((*second)->Commit(), absl::OkStatus());
  EXPECT_TRUE(*archives_.HasSound(name, 7));
}

TEST_F(ShippedArchivesTest, OtherContentThanTheNameSaysIsRefused) {
  const std::string name = ContentNameOf("content");
  EXPECT_THAT(std::string(Write("Content", name).message()), HasSubstr("send it under that name"));
  auto writer = archives_.Create(name, 7);
  EXPECT_TRUE((*writer)->Append("conten").ok());
  EXPECT_THAT(std::string((*writer)->Append("tt").message()), HasSubstr("more bytes"));
  writer = archives_.Create(name, 7);
  EXPECT_TRUE((*writer)->Append("conten").ok());
  EXPECT_THAT(std::string((*writer)->Commit().message()), HasSubstr("lacks 1 of the bytes"));
  EXPECT_FALSE(*archives_.Has(name));
}

TEST_F(ShippedArchivesTest, ADamagedArchiveIsRemovedAndCanBeSentAgain) {
  const std::string name = ContentNameOf("content");
  ASSERT_TRUE(Write("content", name).ok());
  ASSERT_TRUE(ReplaceFile(storage_, Uri(name), "contenx").ok());
  EXPECT_FALSE(*archives_.HasSound(name, 7));
  EXPECT_FALSE(*archives_.Has(name));
  EXPECT_EQ(Write("content", name), absl::OkStatus());
  // A wrong size is the caller's mistake.
  EXPECT_EQ(archives_.HasSound(name, 8).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(*archives_.Has(name));
}

TEST_F(ShippedArchivesTest, NamesLeadNowhereElse) {
  for (const char* name : {"", "..", "../j1-0000", "sha256-", "j1-0000"}) {
    EXPECT_EQ(archives_.Remove(name).code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(archives_.Create(name, 1).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ShippedArchiveUri("/root", name).status().code(), absl::StatusCode::kInvalidArgument);
  }
  ASSERT_TRUE(ReplaceFile(storage_, "/root/shipped/other", "").ok());
  EXPECT_THAT(*archives_.List(), IsEmpty());
}

}  // namespace
}  // namespace muster
