#include "worker/data/datasets/idx_file.h"

#include <string>

#include "common/compression/packed_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/parsing/temp_files_for_testing.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class IdxFileTest : public testing::Test {
 protected:
  // That reading a file of these bytes fails, the path and these texts in its message.
  void ExpectError(const std::string& bytes, const std::string& a, const std::string& b = "") {
    const std::string path = folder_.Write("bad-idx", bytes);
    const auto array = ReadIdxFile(path);
    EXPECT_EQ(array.status().code(), absl::StatusCode::kInvalidArgument) << array.status();
    EXPECT_THAT(std::string(array.status().message()),
                AllOf(HasSubstr(path), HasSubstr(a), HasSubstr(b)));
  }

  const TempFolder folder_;
};

TEST_F(IdxFileTest, ReadsPlainAndPackedFilesAlike) {
  const std::string bytes = IdxFile({2, 3}, "abcdef");
  for (const std::string& content : {bytes, Gzip(bytes)}) {
    const auto array = ReadIdxFile(folder_.Write("idx", content));
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_THAT(array->dimensions, ElementsAre(2, 3));
    EXPECT_EQ(array->elements, "abcdef");
  }
}

TEST_F(IdxFileTest, NamesExpectedAndActualBytesOfATruncatedFile) {
  const std::string bytes = IdxFile({2, 3}, "abcde");
  ExpectError(bytes, "truncated: dimensions 2 x 3 expect 18 bytes, actual size is 17 bytes");
  ExpectError(Gzip(bytes), "truncated: dimensions 2 x 3 expect 18 bytes, actual size is 17 bytes");
  ExpectError(bytes.substr(0, 7), "header of 12 bytes, actual size is 7 bytes");
  ExpectError(Gzip(bytes.substr(0, 7)), "header of 12 bytes, actual size is 7 bytes");
}

TEST_F(IdxFileTest, NamesWhereATruncatedPackedStreamEnds) {
  std::string elements;
  for (uint32_t i = 0; i < 100'000; ++i) elements += static_cast<char>(i * i >> 5);
  const std::string packed = Gzip(IdxFile({100'000}, elements));
  ExpectError(packed.substr(0, packed.size() / 2), "ends early", "expected 100008 bytes");
  ExpectError(packed.substr(0, 5), "ends early");
}

TEST_F(IdxFileTest, RefusesALongerFile) {
  const std::string bytes = IdxFile({2, 3}, "abcdefg");
  ExpectError(bytes, "too long", "expect 18 bytes, actual size is at least 19 bytes");
  ExpectError(Gzip(bytes), "too long", "expect 18 bytes, actual size is at least 19 bytes");
}

TEST_F(IdxFileTest, RefusesOtherFormatsAndTypes) {
  ExpectError("label,a,b\n", "does not begin with the bytes 0000 08");
  ExpectError("ab", "does not begin with the bytes 0000 08");
  std::string floats = IdxFile({1}, "abcd");
  floats[2] = 0x0d;
  ExpectError(floats, "another type than unsigned bytes");
}

TEST_F(IdxFileTest, RefusesDimensionsThatCannotBe) {
  ExpectError(IdxFile({}, "a"), "no dimensions");
  ExpectError(IdxFile({0, 28, 28}, ""), "is empty: its dimensions are 0");
  ExpectError(IdxFile({0xffffffff, 0xffffffff, 0xffffffff}, "a"), "beyond 2^62");
  // Far more than there is: an error, and no memory taken for it.
  ExpectError(Gzip(IdxFile({0xffffffff, 0x10000}, "a")), "truncated", "packed ones are too few");
}

TEST_F(IdxFileTest, RefusesEmptyAndMissingFiles) {
  ExpectError("", "is empty");
  const std::string absent = folder_.path() + "/absent";
  const auto array = ReadIdxFile(absent);
  EXPECT_EQ(array.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(array.status().message()), HasSubstr(absent));
}

}  // namespace
}  // namespace muster
