#include "common/files/spilled_bytes.h"

#include <filesystem>
#include <random>
#include <string>

#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(SpilledBytesTest, AnyNumberOfThemIsReadBackAndLeavesNothing) {
  std::mt19937 random(4);
  const TempFolder folder;
  for (const size_t size : {size_t{0}, size_t{5}, size_t{1} << 20, size_t{5} << 20}) {
    std::string expected(size, '\0');
    for (char& byte : expected) byte = static_cast<char>(random());
    SpilledBytes spilled(folder.path() + "/beside");
    for (size_t at = 0; at < size; at += 70'000) {
      ASSERT_TRUE(spilled.Append(absl::string_view(expected).substr(at, 70'000)).ok());
    }
    EXPECT_EQ(spilled.size(), size);
    // More than once.
    for (int round = 0; round < 2; ++round) {
      std::string read;
      ASSERT_TRUE(spilled
                      .ForEach([&read](absl::string_view bytes) {
                        read.append(bytes.data(), bytes.size());
                        return absl::OkStatus();
                      })
                      .ok());
      EXPECT_TRUE(read == expected) << size;
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SpilledBytesTest, AFolderThatIsNotThereIsNamed) {
  SpilledBytes spilled("/nowhere/at/all");
  ASSERT_TRUE(spilled.Append("few").ok());
  const absl::Status status = spilled.Append(std::string(2 << 20, 'x'));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("/nowhere/at/all"));
}

TEST(SpilledBytesTest, TheFirstErrorOfTheReaderEndsIt) {
  const TempFolder folder;
  SpilledBytes spilled(folder.path() + "/beside");
  ASSERT_TRUE(spilled.Append(std::string(3 << 20, 'x')).ok());
  ASSERT_TRUE(spilled.Append("y").ok());
  int calls = 0;
  EXPECT_EQ(spilled.ForEach([&calls](absl::string_view) {
    ++calls;
    return absl::AbortedError("enough");
  }),
            absl::AbortedError("enough"));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace muster
