#include "common/safetensors/safetensors_file.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/temp_folder.h"
#include "common/safetensors/safetensors_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string FileOf(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  return absl::StrCat(absl::string_view(reinterpret_cast<const char*>(&length), 8), header, data);
}

class SafetensorsFileTest : public testing::Test {
 protected:
  std::string Error(const std::string& bytes) const {
    return std::string(SafetensorsFile::Open(folder_.Write("x", bytes)).status().message());
  }

  const TempFolder folder_;
};

TEST_F(SafetensorsFileTest, WhatIsWrittenIsReadBack) {
  const std::string path = folder_.path() + "/w.safetensors";
  auto writer = SafetensorsWriter::Create(path, {{"b", {2, 3}}, {"a", {}}, {"c", {0, 4}}},
                                          {{"key", "value \"quoted\""}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  (*writer)->Append({1, 2, 3, 4});
  (*writer)->Append({5, 6, 7});
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->metadata().at("key"), "value \"quoted\"");
  const auto& tensors = (*file)->tensors();
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_THAT(tensors.at("b").shape, ElementsAre(2, 3));
  EXPECT_EQ(tensors.at("b").elements(), 6);
  EXPECT_EQ(tensors.at("a").elements(), 1);
  EXPECT_EQ(tensors.at("c").elements(), 0);
  std::vector<float> values(4);
  ASSERT_TRUE(ReadAsFloats(tensors.at("b"), "b", 2, absl::MakeSpan(values)).ok());
  EXPECT_THAT(values, ElementsAre(3, 4, 5, 6));
}

TEST_F(SafetensorsFileTest, OtherNumbersOfElementsAreNoticed) {
  const std::string path = folder_.path() + "/w.safetensors";
  {
    auto writer = SafetensorsWriter::Create(path, {{"a", {2}}}, {});
    ASSERT_TRUE(writer.ok());
    (*writer)->Append({1});
    EXPECT_THAT(std::string((*writer)->Finish().message()), HasSubstr("1 elements too few"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  EXPECT_THAT(
      std::string(SafetensorsWriter::Create(folder_.path() + "/no/w", {}, {}).status().message()),
      HasSubstr("cannot write " + folder_.path() + "/no/w"));
}

TEST_F(SafetensorsFileTest, HalfPrecisionBecomesF32) {
  const auto bytes = [](const std::vector<uint16_t>& values) {
    return std::string(reinterpret_cast<const char*>(values.data()), values.size() * 2);
  };
  const std::string header = R"({"h":{"dtype":"F16","shape":[8],"data_offsets":[0,16]},)"
                             R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]},)"
                             R"("i":{"dtype":"I64","shape":[0],"data_offsets":[22,22]}})";
  // 1, -2, the largest, the smallest normal and subnormal, minus zero, infinity, NaN.
  const std::string data = bytes({0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x8000, 0x7c00, 0x7e00}) +
                           bytes({0x3f80, 0xc049, 0x7f80});
  const auto file = SafetensorsFile::Open(folder_.Write("h", FileOf(header, data)));
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<float> values(8);
  ASSERT_TRUE(ReadAsFloats((*file)->tensors().at("h"), "h", 0, absl::MakeSpan(values)).ok());
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(std::vector<float>(values.begin(), values.begin() + 7),
              ElementsAre(1, -2, 65504, 0x1p-14f, 0x1p-24f, 0, infinity));
  EXPECT_TRUE(std::signbit(values[5]));
  EXPECT_TRUE(std::isnan(values[7]));
  values.resize(3);
  ASSERT_TRUE(ReadAsFloats((*file)->tensors().at("b"), "b", 0, absl::MakeSpan(values)).ok());
  EXPECT_THAT(values, ElementsAre(1, -3.140625, infinity));
  EXPECT_THAT(std::string(ReadAsFloats((*file)->tensors().at("i"), "i", 0, {}).message()),
              HasSubstr("tensor i has type I64"));
}

// As a sparse file can have without a byte on the disk.
TEST_F(SafetensorsFileTest, AHeaderLongerThanTheFormatAllowsIsNotRead) {
  const uint64_t length = 100'000'001;
  const std::string path =
      folder_.Write("long", std::string(reinterpret_cast<const char*>(&length), sizeof(length)));
  std::filesystem::resize_file(path, sizeof(length) + length);
  EXPECT_THAT(std::string(SafetensorsFile::Open(path).status().message()),
              HasSubstr("at most 100000000 can be"));
}

TEST_F(SafetensorsFileTest, DamageIsNamed) {
  EXPECT_THAT(Error("abc"), HasSubstr("shorter than its first field"));
  EXPECT_THAT(Error(std::string(8, '\x7f')), HasSubstr("reaches past the end"));
  EXPECT_THAT(Error(FileOf("[1]", "")), HasSubstr("no JSON object"));
  EXPECT_THAT(Error(FileOf("{", "")), HasSubstr("the header of"));
  EXPECT_THAT(Error(FileOf("{", "")), HasSubstr("is not JSON"));
  // Millions of values in one another took minutes, and the stack.
  EXPECT_THAT(Error(FileOf(std::string(20 << 20, '['), "")), HasSubstr("20971520 levels deep"));
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& place) {
    return FileOf(absl::StrCat("{\"t\":{\"dtype\":\"", dtype, "\",\"shape\":", shape,
                               ",\"data_offsets\":", place, "}}"),
                  std::string(16, 'x'));
  };
  EXPECT_EQ(Error(tensor("F32", "[4]", "[0,16]")), "");
  EXPECT_THAT(Error(tensor("F32", "[4]", "[4,20]")), HasSubstr("tensor t lies outside"));
  EXPECT_THAT(Error(tensor("F32", "[4]", "[8,4]")), HasSubstr("lies outside"));
  EXPECT_THAT(Error(tensor("F32", "[3]", "[0,16]")),
              HasSubstr("16 bytes, but 12 by its shape [3]"));
  EXPECT_THAT(Error(tensor("Q4", "[4]", "[0,16]")), HasSubstr("unknown type Q4"));
  EXPECT_THAT(Error(tensor("F32", "[-4]", "[0,16]")), HasSubstr("impossible shape"));
  EXPECT_THAT(Error(tensor("F32", "[4611686018427387905,4]", "[0,16]")),
              HasSubstr("impossible shape"));
  EXPECT_THAT(Error(tensor("F32", "4", "[0,16]")), HasSubstr("lacks dtype, shape"));
}

TEST_F(SafetensorsFileTest, RandomDamageIsReadOrRefused) {
  const std::string good = FileOf(
      R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"__metadata__":{"k":"v"}})",
      std::string(16, 'x'));
  std::mt19937 random(3);
  int refused = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string bytes = good;
    for (unsigned i = 0; i <= random() % 3; ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    bytes.resize(bytes.size() - random() % 2 * (random() % bytes.size()));
    refused += !Error(bytes).empty();
  }
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace muster
