#include "client/prove/weights_difference.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "common/files/temp_folder.h"
#include "common/safetensors/safetensors_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<std::pair<std::string, std::vector<float>>>;

class WeightsDifferenceTest : public ::testing::Test {
 protected:
  std::unique_ptr<const SafetensorsFile> File(const Values& values) {
    const std::string path = temp_.path() + "/" + std::to_string(files_++);
    std::vector<SafetensorsWriter::Tensor> announced;
    for (const auto& [name, elements] : values) {
      announced.push_back({name, {static_cast<int64_t>(elements.size())}});
    }
    auto writer = SafetensorsWriter::Create(path, announced, {});
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (const auto& tensor : values) (*writer)->Append(tensor.second);
    EXPECT_TRUE((*writer)->Finish().ok());
    return *SafetensorsFile::Open(path);
  }

  // A table with one float a row.
  std::unique_ptr<const SafetensorsFile> Table(const std::vector<uint64_t>& keys,
                                               const std::vector<float>& rows) {
    const size_t key_bytes = keys.size() * sizeof(uint64_t);
    const std::string header =
        R"({"t.keys":{"dtype":"U64","shape":[)" + std::to_string(keys.size()) +
        R"(],"data_offsets":[0,)" + std::to_string(key_bytes) +
        R"(]},"t.rows":{"dtype":"F32","shape":[)" + std::to_string(rows.size()) +
        R"(,1],"data_offsets":[)" + std::to_string(key_bytes) + "," +
        std::to_string(key_bytes + rows.size() * sizeof(float)) + "]}}";
    std::string bytes(sizeof(uint64_t), '\0');
    const uint64_t length = header.size();
    memcpy(bytes.data(), &length, sizeof(length));
    bytes += header;
    bytes.append(reinterpret_cast<const char*>(keys.data()), key_bytes);
    bytes.append(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(float));
    auto file = SafetensorsFile::Open(temp_.Write(std::to_string(files_++), bytes));
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  const TempFolder temp_;
  int files_ = 0;
};

TEST_F(WeightsDifferenceTest, TensorsAreInOrderOfTheFile) {
  const auto expected = File({{"z", {1, -4, 2}}, {"a", {0}}});
  const auto file = File({{"z", {1, -4.5, 2.25}}, {"a", {0}}});
  const auto differences = WeightsDifference(*file, *expected);
  ASSERT_TRUE(differences.ok()) << differences.status();
  ASSERT_EQ(differences->size(), 2u);
  const TensorDifference& z = (*differences)[0];
  EXPECT_EQ(z.tensor, "z");
  EXPECT_EQ(z.difference, 0.5);
  EXPECT_EQ(z.element, 1);
  EXPECT_EQ(z.value, -4.5);
  EXPECT_EQ(z.expected, -4);
  EXPECT_EQ(z.largest, 4);
  EXPECT_EQ((*differences)[1].difference, 0);
  EXPECT_DOUBLE_EQ(AllowedDifference(z, 100, 1e-5), 1e-5 * 5);
  EXPECT_DOUBLE_EQ(AllowedDifference(z, 10, 1e-5), 1e-5 * 4);
}

TEST_F(WeightsDifferenceTest, EveryPartOfALargeTensorCounts) {
  std::vector<float> values(200'000, 1);
  const auto expected = File({{"a", values}});
  for (const size_t at : {size_t{0}, size_t{65'535}, size_t{65'536}, size_t{199'999}}) {
    std::vector<float> changed = values;
    changed[at] = 2;
    const auto differences = WeightsDifference(*File({{"a", changed}}), *expected);
    ASSERT_TRUE(differences.ok()) << differences.status();
    EXPECT_EQ((*differences)[0].element, static_cast<int64_t>(at));
    EXPECT_EQ((*differences)[0].difference, 1);
  }
}

TEST_F(WeightsDifferenceTest, WhatIsNoNumberIsFarFromANumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const auto& [value, expected] :
       {std::pair(nan, 1.0f), std::pair(1.0f, nan), std::pair(infinity, -infinity)}) {
    const auto differences = WeightsDifference(*File({{"a", {value}}}), *File({{"a", {expected}}}));
    ASSERT_TRUE(differences.ok()) << differences.status();
    EXPECT_TRUE(std::isinf((*differences)[0].difference)) << value << " " << expected;
    EXPECT_FALSE((*differences)[0].difference <= AllowedDifference((*differences)[0], 1, 1e-5));
  }
  EXPECT_EQ((*WeightsDifference(*File({{"a", {nan}}}), *File({{"a", {nan}}})))[0].difference, 0);
}

TEST_F(WeightsDifferenceTest, RowsAreFoundByTheirKeys) {
  const auto expected = Table({3, 1, 2}, {30, 10, 20});
  const auto same = WeightsDifference(*Table({1, 2, 3}, {10, 20, 30}), *expected);
  ASSERT_TRUE(same.ok()) << same.status();
  ASSERT_EQ(same->size(), 1u);
  EXPECT_EQ((*same)[0].tensor, "t.rows");
  EXPECT_EQ((*same)[0].difference, 0);
  const auto other = WeightsDifference(*Table({1, 2, 3}, {10, 20, 31}), *expected);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ((*other)[0].difference, 1);
  EXPECT_EQ((*other)[0].element, 0) << "the place in the expected file";
  EXPECT_THAT(
      std::string(WeightsDifference(*Table({1, 2, 4}, {10, 20, 30}), *expected).status().message()),
      HasSubstr("no row of t for the key 3"));
}

TEST_F(WeightsDifferenceTest, OtherTensorsAreNamed) {
  const auto expected = File({{"a", {1}}, {"b", {1, 2}}});
  const auto error = [&](const Values& values) {
    return std::string(WeightsDifference(*File(values), *expected).status().message());
  };
  EXPECT_THAT(error({{"a", {1}}}), HasSubstr("has no tensor b"));
  EXPECT_THAT(error({{"a", {1}}, {"b", {1}}}), HasSubstr("another shape of the tensor b"));
  EXPECT_THAT(error({{"a", {1}}, {"b", {1, 2}}, {"c", {1}}}), HasSubstr("has the tensor c"));
}

}  // namespace
}  // namespace muster
