#include "common/parquet/thrift_reader.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

// Fields 1: -3 (32 bits), 2: true, 3: "ab", 5: [7, 8], 25: {1: false}, and the end.
const std::string& Sound() {
  static const std::string* const sound = new std::string(
      "\x15\x05\x11\x18\x02"
      "ab\x29\x26\x0e\x10\x0c\x32\x12\x00\x00",
      16);
  return *sound;
}

std::vector<std::string> FieldsIn(absl::string_view bytes) {
  std::vector<std::string> fields;
  ThriftReader reader(bytes);
  reader.Struct([&](int field) {
    if (field == 1) fields.push_back(absl::StrCat(field, "=", reader.Int()));
    if (field == 2) fields.push_back(absl::StrCat(field, "=", reader.Bool()));
    if (field == 3) fields.push_back(absl::StrCat(field, "=", std::string(reader.Binary())));
    if (field == 5) reader.List([&] { fields.push_back(absl::StrCat("-", reader.Int())); });
    if (field == 25) {
      reader.Struct([&](int inner) { fields.push_back(absl::StrCat(inner, "=", reader.Bool())); });
    }
  });
  if (reader.failed()) return {reader.ended() ? "ended" : "failed"};
  fields.push_back(absl::StrCat(reader.taken(), " bytes"));
  return fields;
}

TEST(ThriftReaderTest, FieldsAreReadOrSkipped) {
  EXPECT_THAT(FieldsIn(Sound() + "behind"),
              ElementsAre("1=-3", "2=1", "3=ab", "-7", "-8", "1=0", "16 bytes"));
  ThriftReader skips(Sound());
  skips.Struct([](int) {});
  EXPECT_FALSE(skips.failed());
  EXPECT_EQ(skips.taken(), 16u);
  // Field 4 is a map of a byte to a double, field 6 a set of booleans: both are skipped.
  const std::string other(
      "\x4b\x01\x37\x05"
      "12345678"
      "\x2a\x21\x01\x02\x00",
      17);
  EXPECT_THAT(FieldsIn(other), ElementsAre("17 bytes"));
}

TEST(ThriftReaderTest, BytesThatEndEarlyAreToldFromDamage) {
  for (size_t size = 0; size < Sound().size(); ++size) {
    EXPECT_THAT(FieldsIn(Sound().substr(0, size)), ElementsAre("ended")) << size;
  }
  // A text where a number should be; a type that is none; a list of them; a number that never ends.
  EXPECT_THAT(FieldsIn(std::string("\x18\x01x\0", 4)), ElementsAre("failed"));
  EXPECT_THAT(FieldsIn(std::string("\x4f\0", 2)), ElementsAre("failed"));
  EXPECT_THAT(FieldsIn(std::string("\x49\x10\x01\0", 4)), ElementsAre("failed"));
  EXPECT_THAT(FieldsIn("\x16" + std::string(20, '\xff')), ElementsAre("failed"));
  // Structs within structs.
  EXPECT_THAT(FieldsIn(std::string(100, '\x4c')), ElementsAre("failed"));
  // A list of more elements than there are bytes.
  EXPECT_THAT(FieldsIn(std::string("\x49\xf3\xff\xff\xff\xff\x07xx", 9)), ElementsAre("ended"));
}

}  // namespace
}  // namespace muster
