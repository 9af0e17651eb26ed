#include "common/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/checkpoint/memory_storage.h"
#include "common/checkpoint/test_checkpoint.h"
#include "proto/checkpoint.pb.h"
#include "proto/data_preparation.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<std::string> Export(const CheckpointStorage& storage,
                                   ExportedValues values = ExportedValues::kWeights) {
  absl::StatusOr<std::unique_ptr<CheckpointReader>> reader =
      CheckpointReader::Open(storage, kTestFolder);
  if (!reader.ok()) return reader.status();
  std::string out;
  const absl::Status status =
      ExportSafetensors(**reader, values, [&out](absl::Span<const std::byte> bytes) {
        out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  return out;
}

// A reader of the format by its description, apart from the writer.
class Parsed {
 public:
  explicit Parsed(const std::string& file) {
    uint64_t length;
    std::memcpy(&length, file.data(), 8);
    header = nlohmann::json::parse(file.substr(8, length));
    data = file.substr(8 + length);
    header_bytes = length;
  }

  template <typename T>
  std::vector<T> Values(const std::string& name) const {
    const uint64_t begin = header.at(name).at("data_offsets").at(0);
    const uint64_t end = header.at(name).at("data_offsets").at(1);
    std::vector<T> values((end - begin) / sizeof(T));
    std::memcpy(values.data(), data.data() + begin, end - begin);
    return values;
  }

  nlohmann::json header;
  std::string data;
  uint64_t header_bytes = 0;
};

class SafetensorsTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(SafetensorsTest, HoldsEveryTensor) {
  MemoryStorage storage;
  ASSERT_TRUE(WriteTestCheckpoint(storage, kTestFolder, GetParam()).ok());
  const absl::StatusOr<std::string> file = Export(storage);
  ASSERT_TRUE(file.ok()) << file.status();
  const Parsed parsed(*file);

  EXPECT_EQ(parsed.header["__metadata__"]["job"], "job-1");
  EXPECT_EQ(parsed.header["__metadata__"]["clock"], "7");
  EXPECT_EQ(parsed.header["a"]["dtype"], "F32");
  EXPECT_THAT(parsed.header["a"]["shape"].get<std::vector<uint64_t>>(), ElementsAre(4, 6));
  EXPECT_THAT(parsed.header["s"]["shape"].get<std::vector<uint64_t>>(), IsEmpty());
  EXPECT_EQ(parsed.header["e.keys"]["dtype"], "U64");
  EXPECT_THAT(parsed.header["e.keys"]["shape"].get<std::vector<uint64_t>>(),
              ElementsAre(kTestRows));
  EXPECT_THAT(parsed.header["e.rows"]["shape"].get<std::vector<uint64_t>>(),
              ElementsAre(kTestRows, 3));
  EXPECT_THAT(parsed.header["f.rows"]["shape"].get<std::vector<uint64_t>>(), ElementsAre(0, 1));

  const std::pair<const char*, uint64_t> tensors[] = {{"a", 24}, {"b", 5}, {"s", 1}};
  for (const auto& [name, elements] : tensors) {
    const std::vector<float> values = parsed.Values<float>(name);
    ASSERT_EQ(values.size(), elements);
    for (uint64_t i = 0; i < elements; ++i) EXPECT_EQ(values[i], TestElement(name, 0, i));
  }
  const std::vector<uint64_t> keys = parsed.Values<uint64_t>("e.keys");
  const std::vector<float> rows = parsed.Values<float>("e.rows");
  ASSERT_EQ(keys.size(), kTestRows);
  ASSERT_EQ(rows.size(), kTestRows * 3);
  for (uint64_t k = 0; k < kTestRows; ++k) {
    EXPECT_EQ(keys[k], 1000 * k);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(rows[3 * k + i], TestRowValue(keys[k], i));
  }
}

// The format's own rules: the data are covered without gaps or overlaps, and elements can be read
// in place.
TEST_P(SafetensorsTest, LayoutFollowsTheFormat) {
  MemoryStorage storage;
  ASSERT_TRUE(WriteTestCheckpoint(storage, kTestFolder, GetParam()).ok());
  const absl::StatusOr<std::string> file = Export(storage);
  ASSERT_TRUE(file.ok()) << file.status();
  const Parsed parsed(*file);
  EXPECT_EQ(parsed.header_bytes % 8, 0u);
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const auto& [name, tensor] : parsed.header.items()) {
    if (name == "__metadata__") continue;
    uint64_t bytes = tensor["dtype"] == "U64" ? 8 : 4;
    const uint64_t begin = tensor["data_offsets"][0];
    EXPECT_EQ(begin % bytes, 0u) << name;
    for (const uint64_t extent : tensor["shape"]) bytes *= extent;
    ranges.emplace_back(begin, tensor["data_offsets"][1]);
    EXPECT_EQ(ranges.back().second - begin, bytes) << name;
  }
  std::sort(ranges.begin(), ranges.end());
  uint64_t at = 0;
  for (const auto& [begin, end] : ranges) {
    EXPECT_EQ(begin, at);
    at = end;
  }
  EXPECT_EQ(at, parsed.data.size());
}

INSTANTIATE_TEST_SUITE_P(Partitions, SafetensorsTest, ::testing::Values(1, 3));

TEST(SafetensorsMetadataTest, NamesTheTokenizerThatIsKnown) {
  MemoryStorage storage;
  ASSERT_TRUE(WriteTestCheckpoint(storage, kTestFolder, 1).ok());
  EXPECT_EQ(Parsed(*Export(storage)).header["__metadata__"].size(), 3u);
  v1::CheckpointManifest manifest = ReadManifest(storage, kTestFolder).value();
  manifest.mutable_schema()->mutable_tokenizer()->set_fingerprint(0xab);
  manifest.mutable_schema()->mutable_tokenizer()->set_name("t.json");
  ASSERT_TRUE(DeleteManifest(storage, kTestFolder).ok());
  ASSERT_TRUE(WriteManifest(storage, kTestFolder, manifest).ok());
  const Parsed parsed(*Export(storage));
  EXPECT_EQ(parsed.header["__metadata__"]["tokenizer_name"], "t.json");
  EXPECT_EQ(parsed.header["__metadata__"]["tokenizer_fingerprint"], "00000000000000ab");
}

TEST(SafetensorsMetadataTest, TellsHowDataWerePrepared) {
  MemoryStorage storage;
  ASSERT_TRUE(WriteTestCheckpoint(storage, kTestFolder, 1).ok());
  v1::CheckpointManifest manifest = ReadManifest(storage, kTestFolder).value();
  v1::DataPreparation preparation;
  v1::NumericColumn& column = *preparation.mutable_csv()->add_numeric();
  column.set_name("age");
  column.set_mean(0.1);
  column.set_deviation(2);
  preparation.mutable_csv()->add_classes("no");
  preparation.mutable_csv()->add_classes("yes");
  const auto export_with = [&](const std::string& bytes) {
    manifest.set_data_preparation(bytes);
    EXPECT_TRUE(DeleteManifest(storage, kTestFolder).ok());
    EXPECT_TRUE(WriteManifest(storage, kTestFolder, manifest).ok());
    return Export(storage);
  };
  const Parsed parsed(*export_with(preparation.SerializeAsString()));
  const auto told =
      nlohmann::json::parse(parsed.header["__metadata__"]["data_preparation"].get<std::string>());
  EXPECT_EQ(told, nlohmann::json::parse(R"({"csv":{"classes":["no","yes"],"numeric":[)"
                                        R"({"name":"age","mean":0.1,"deviation":2}]}})"));
  EXPECT_EQ(export_with("\xff").status().code(), absl::StatusCode::kDataLoss);
}

TEST(SafetensorsErrorsTest, TheSinksErrorEndsTheExport) {
  MemoryStorage storage;
  ASSERT_TRUE(WriteTestCheckpoint(storage, kTestFolder, 2).ok());
  const auto reader = CheckpointReader::Open(storage, kTestFolder);
  int calls = 0;
  const absl::Status status = ExportSafetensors(
      **reader, ExportedValues::kWeights, [&calls](absl::Span<const std::byte> bytes) {
        return ++calls < 3 ? absl::OkStatus() : absl::ResourceExhaustedError("the disk is full");
      });
  EXPECT_EQ(status, absl::ResourceExhaustedError("the disk is full"));
  EXPECT_EQ(calls, 3);
}

TEST(SafetensorsErrorsTest, TwoTensorsOfOneNameAreRefused) {
  MemoryStorage storage;
  ASSERT_TRUE(WriteTestCheckpoint(storage, kTestFolder, 1).ok());
  v1::CheckpointManifest manifest = ReadManifest(storage, kTestFolder).value();
  v1::TensorSchema& tensor = *manifest.mutable_schema()->add_tensors();
  tensor.set_name("e.keys");
  ASSERT_TRUE(DeleteManifest(storage, kTestFolder).ok());
  ASSERT_TRUE(WriteManifest(storage, kTestFolder, manifest).ok());
  const absl::Status status = Export(storage).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("'e.keys'"));
}

TEST(SafetensorsErrorsTest, ADamagedFileIsDataLoss) {
  MemoryStorage storage;
  ASSERT_TRUE(WriteTestCheckpoint(storage, kTestFolder, 2).ok());
  const std::string uri = JoinUri(kTestFolder, PartitionFileName(1, 2));
  std::string bytes = ReadFile(storage, uri).value();
  bytes.back() ^= 1;
  ASSERT_TRUE(ReplaceFile(storage, uri, bytes).ok());
  const absl::Status status = Export(storage).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(uri));
}

}  // namespace
}  // namespace muster
