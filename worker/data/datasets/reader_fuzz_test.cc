#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/data/csv/csv_dataset.h"
#include "worker/data/dataset.h"
#include "worker/data/datasets/open_dataset.h"
#include "worker/data/parsing/temp_files_for_testing.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// Damages a valid file in a few random places, as a function of the round alone: bytes changed,
// cut out, doubled or put in, the end cut off. Bytes put in are often ones that mean something to a
// parser.
std::string Mutate(absl::string_view valid, absl::string_view format, uint64_t round) {
  static constexpr char kTelling[] = "\0\n\r\",:+-.0129eENna#\x08\x1f\x8b\xff\t ";
  const Philox random(1, "reader_fuzz", format);
  std::string bytes(valid);
  uint64_t draw = 0;
  const auto below = [&](uint64_t bound) { return random.Below(bound, round, draw++); };
  const uint64_t edits = 1 + below(4);
  for (uint64_t edit = 0; edit < edits && !bytes.empty(); ++edit) {
    const size_t at = below(bytes.size());
    const size_t length = 1 + below(std::min<size_t>(8, bytes.size() - at));
    const char byte =
        below(2) == 0 ? kTelling[below(sizeof(kTelling) - 1)] : static_cast<char>(below(256));
    switch (below(5)) {
      case 0:
        bytes[at] = byte;
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, length));
        break;
      case 3:
        bytes.insert(at, 1, byte);
        break;
      case 4:
        bytes.resize(at);
        break;
    }
  }
  return bytes;
}

// What every reader promises of whatever it accepts.
void ExpectConsistent(const Dataset& dataset) {
  const DatasetInfo& info = dataset.info();
  ASSERT_GT(info.examples, 0);
  std::vector<int64_t> indices;
  for (int64_t i = std::min<int64_t>(info.examples, 100); i-- > 0;) indices.push_back(i);
  Batch batch;
  ASSERT_TRUE(dataset.Read(indices, batch).ok());
  ASSERT_EQ(batch.examples, static_cast<int64_t>(indices.size()));
  ASSERT_EQ(batch.dense.size(), indices.size() * info.dense_features);
  ASSERT_EQ(batch.tokens.size(), indices.size() * info.context);
  ASSERT_EQ(batch.labels.size(), indices.size());
  for (const int32_t label : batch.labels) {
    ASSERT_GE(label, 0);
    ASSERT_LT(label, info.classes);
  }
  for (const float value : batch.dense) ASSERT_TRUE(std::isfinite(value));
  for (const float value : batch.values) ASSERT_TRUE(std::isfinite(value));
  ASSERT_EQ(batch.offsets.size(), info.sparse ? indices.size() + 1 : 1);
  ASSERT_EQ(batch.offsets.back(), static_cast<int64_t>(batch.keys.size()));
  ASSERT_EQ(batch.keys.size(), batch.values.size());
  if (info.fields > 0) {
    ASSERT_EQ(batch.keys.size(), indices.size() * info.fields);
  }
}

using Opener = std::function<absl::StatusOr<std::unique_ptr<const Dataset>>()>;

// Opens damaged forms of a valid file, `file` of `folder`.
void Fuzz(const TempFolder& folder, const std::string& file, absl::string_view valid,
          const Opener& open) {
  constexpr uint64_t kRounds = 3000;
  folder.Write(file, valid);
  ASSERT_TRUE(open().ok()) << open().status();
  int refused = 0;
  for (uint64_t round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(testing::Message() << file << ", round " << round);
    // Removed, not cut: some file systems flush a file that is written anew in place.
    std::filesystem::remove(folder.path() + "/" + file);
    const std::string path = folder.Write(file, Mutate(valid, file, round));
    const auto dataset = open();
    if (dataset.ok()) {
      ASSERT_NO_FATAL_FAILURE(ExpectConsistent(**dataset));
    } else {
      ++refused;
      ASSERT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument) << dataset.status();
      ASSERT_THAT(std::string(dataset.status().message()), HasSubstr(path));
    }
  }
  // Else the damage done would be too little to show anything.
  EXPECT_GT(refused, static_cast<int>(kRounds / 10)) << file;
}

void Fuzz(const TempFolder& folder, const std::string& file, absl::string_view valid,
          const v1::DataSpec& spec) {
  Fuzz(folder, file, valid, [&spec] { return OpenDataset(spec, {}); });
}

TEST(ReaderFuzzTest, Csv) {
  const TempFolder folder;
  v1::DataSpec spec;
  spec.mutable_csv()->set_path(folder.path() + "/a.csv");
  spec.mutable_csv()->set_label("y");
  spec.mutable_csv()->add_numeric("n");
  spec.mutable_csv()->add_numeric("m");
  spec.mutable_csv()->add_categorical("c");
  Fuzz(folder, "a.csv",
       "y,n,m,c,unused\n0,1.5,-2e3,red,x\n1,,7,\"blue, \"\"dark\"\"\",\n0,3,,\"two\nlines\",y\r\n"
       "1,0.001,9,,\"\"\n2,-4,11,green,z\n",
       spec);
}

constexpr char kWithoutHeader[] =
    "one;1.5;-2e3;red\ntwo;;7;\"blue; \"\"dark\"\"\"\none;3;;\"two\nlines\"\r\n"
    "two;0.001;9;\ntwo;-4;11;green\n";

v1::DataSpec WithoutHeader(const std::string& path) {
  v1::DataSpec spec;
  spec.mutable_csv()->set_path(path);
  spec.mutable_csv()->set_no_header(true);
  spec.mutable_csv()->set_separator(";");
  spec.mutable_csv()->set_label("1");
  spec.mutable_csv()->add_numeric("2");
  spec.mutable_csv()->add_numeric("3");
  spec.mutable_csv()->add_categorical("4");
  return spec;
}

TEST(ReaderFuzzTest, CsvWithoutHeaderOfTextLabels) {
  const TempFolder folder;
  Fuzz(folder, "a.csv", kWithoutHeader, WithoutHeader(folder.path() + "/a.csv"));
}

TEST(ReaderFuzzTest, PackedCsv) {
  const TempFolder folder;
  Fuzz(folder, "a.csv.gz", Gzip(kWithoutHeader), WithoutHeader(folder.path() + "/a.csv.gz"));
}

TEST(ReaderFuzzTest, CsvOfSeveralFiles) {
  const TempFolder folder;
  v1::DataSpec spec;
  spec.mutable_csv()->set_path(folder.path() + "/{a,b}*");
  spec.mutable_csv()->set_label("y");
  spec.mutable_csv()->add_numeric("n");
  folder.Write("a.csv", "y,n\n1,1\n2,2\n");
  Fuzz(folder, "b.csv", "y,n\n1,3\n2,\"5\"\n1,\n", spec);
}

TEST(ReaderFuzzTest, CsvThatIsReadFromTheDisk) {
  const TempFolder folder;
  const CsvColumns columns = {.label = "y", .numeric = {"n"}, .categorical = {"c"}};
  Fuzz(folder, "a.csv", "y,n,c\n0,1.5,red\n1,,\"blue, \"\"dark\"\"\"\n\n0,3,\"two\nlines\"\r\n",
       [&] {
         return CsvDataset::Create(folder.path() + "/a.csv", columns, {.keep_below_bytes = 1});
       });
}

// A preparation comes with weights, which may be anybody's.
TEST(ReaderFuzzTest, CsvPreparation) {
  const TempFolder folder;
  const v1::DataSpec spec = WithoutHeader(folder.Write("a.csv", kWithoutHeader));
  const std::string valid = OpenDataset(spec, {}).value()->info().preparation;
  ASSERT_FALSE(valid.empty());
  int refused = 0;
  for (uint64_t round = 0; round < 3000; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    const auto dataset = OpenDataset(spec, {.preparation = Mutate(valid, "preparation", round)});
    if (dataset.ok()) {
      ASSERT_NO_FATAL_FAILURE(ExpectConsistent(**dataset));
    } else {
      ++refused;
      ASSERT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument) << dataset.status();
    }
  }
  EXPECT_GT(refused, 300);
}

TEST(ReaderFuzzTest, Libsvm) {
  const TempFolder folder;
  v1::DataSpec spec;
  spec.mutable_libsvm()->set_path(folder.path() + "/a.libsvm");
  Fuzz(folder, "a.libsvm",
       "# comment\n0 1:1 3:0.25 17:-1e3\n1 2:1.5\n2\n\n1 4:0.5 9:1 1000000:2 # end\n0 1:7\n", spec);
}

TEST(ReaderFuzzTest, IdxImages) {
  const TempFolder folder;
  v1::DataSpec spec;
  spec.mutable_idx()->set_images(folder.path() + "/images");
  spec.mutable_idx()->set_labels(
      folder.Write("labels", IdxFile({3}, std::string("\x00\x01\x02", 3))));
  Fuzz(folder, "images", IdxFile({3, 2, 2}, "abcdefghijkl"), spec);
}

TEST(ReaderFuzzTest, PackedIdxImages) {
  const TempFolder folder;
  v1::DataSpec spec;
  spec.mutable_idx()->set_images(folder.path() + "/images.gz");
  spec.mutable_idx()->set_labels(
      folder.Write("labels", IdxFile({3}, std::string("\x00\x01\x02", 3))));
  Fuzz(folder, "images.gz", Gzip(IdxFile({3, 2, 2}, "abcdefghijkl")), spec);
}

TEST(ReaderFuzzTest, IdxLabels) {
  const TempFolder folder;
  v1::DataSpec spec;
  spec.mutable_idx()->set_images(folder.Write("images", IdxFile({3, 2, 2}, "abcdefghijkl")));
  spec.mutable_idx()->set_labels(folder.path() + "/labels");
  Fuzz(folder, "labels", IdxFile({3}, std::string("\x00\x01\x02", 3)), spec);
}

}  // namespace
}  // namespace muster
