#include "worker/predict/exported_rows.h"

#include <string>
#include <vector>

#include "common/files/temp_folder.h"
#include "common/partition/initial_values.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/predict/exported_file_for_testing.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ExportedRowsTest : public ::testing::Test {
 protected:
  std::unique_ptr<const SafetensorsFile> Open(const ExportedFile& file) {
    return SafetensorsFile::Open(folder_.Write("weights", file.bytes())).value();
  }

  const TempFolder folder_;
  const SparseTableSpec table_ = {
      .name = "t", .dim = 2, .initializer = {.kind = Initializer::Kind::kUniform, .scale = 1}};
};

TEST_F(ExportedRowsTest, TrainedKeysHaveTheirRowsAndOthersTheirInitialValues) {
  const auto file = Open(ExportedFile()
                             .Add<uint64_t>("t.keys", "U64", {2}, {7, ~uint64_t{0}})
                             .Add<float>("t.rows", "F32", {2, 2}, {1, 2, 3, 4}));
  const ExportedRows rows = ExportedRows::Open(*file, table_, /*seed=*/5).value();
  SparseRows sparse;
  sparse.keys = {~uint64_t{0}, 8, 7};
  sparse.rows.resize(6);
  rows.LookUp(sparse);
  std::vector<float> initial(2);
  InitialRow(table_, 5, 8, absl::MakeSpan(initial));
  EXPECT_NE(initial[0], 0);
  EXPECT_THAT(sparse.rows, ElementsAre(3, 4, initial[0], initial[1], 1, 2));
}

TEST_F(ExportedRowsTest, ATableThatWasNeverTrainedHasInitialValues) {
  const auto file = Open(ExportedFile()
                             .Add<uint64_t>("t.keys", "U64", {0}, {})
                             .Add<float>("t.rows", "F32", {0, 2}, {}));
  SparseRows sparse;
  sparse.keys = {3};
  sparse.rows.resize(2);
  ExportedRows::Open(*file, table_, 5).value().LookUp(sparse);
  std::vector<float> initial(2);
  InitialRow(table_, 5, 3, absl::MakeSpan(initial));
  EXPECT_EQ(sparse.rows, initial);
}

TEST_F(ExportedRowsTest, RefusesOtherTables) {
  const auto error = [&](const ExportedFile& file) {
    const auto opened = Open(file);
    const absl::Status status = ExportedRows::Open(*opened, table_, 5).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error(ExportedFile()), HasSubstr("has no tensor t.keys"));
  EXPECT_THAT(error(ExportedFile()
                        .Add<uint64_t>("t.keys", "U64", {1}, {1})
                        .Add<float>("t.rows", "F32", {1, 3}, {1, 2, 3})),
              AllOf(HasSubstr("t.rows is F32 [1, 3]"), HasSubstr("the last of 2")));
  EXPECT_THAT(error(ExportedFile().Add<float>("t.keys", "F32", {1}, {1})),
              HasSubstr("t.keys is F32 [1], expected U64"));
}

}  // namespace
}  // namespace muster
