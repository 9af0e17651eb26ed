#ifndef MUSTER_WORKER_DATA_CSV_CSV_DATASET_FOR_TESTING_H_
#define MUSTER_WORKER_DATA_CSV_CSV_DATASET_FOR_TESTING_H_

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/data_preparation.pb.h"
#include "worker/data/batch.h"
#include "worker/data/csv/csv_dataset.h"
#include "worker/data/parsing/temp_files_for_testing.h"

namespace muster {

class CsvDatasetTest : public testing::Test {
 protected:
  // Expects a file of this text to be refused, with these texts in the message.
  void ExpectError(const std::string& text, const CsvColumns& columns, const std::string& a,
                   const std::string& b = "") {
    const auto dataset = CsvDataset::Create(folder_.Write("bad.csv", text), columns);
    EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(dataset.status().message()),
                testing::AllOf(testing::HasSubstr(a), testing::HasSubstr(b)));
  }

  static Batch ReadAll(const CsvDataset& dataset) {
    std::vector<int64_t> all(dataset.info().examples);
    std::iota(all.begin(), all.end(), 0);
    Batch batch;
    EXPECT_TRUE(dataset.Read(all, batch).ok());
    return batch;
  }

  static v1::CsvPreparation PreparationOf(const CsvDataset& dataset) {
    v1::DataPreparation preparation;
    EXPECT_TRUE(preparation.ParseFromString(dataset.info().preparation));
    return preparation.csv();
  }

  const TempFolder folder_;
  const CsvColumns columns_ = {.label = "y", .numeric = {"n"}, .categorical = {"c"}};
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_CSV_CSV_DATASET_FOR_TESTING_H_
