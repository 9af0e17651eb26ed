#ifndef MUSTER_COMMON_JOB_DATA_CSV_HEAD_H_
#define MUSTER_COMMON_JOB_DATA_CSV_HEAD_H_

#include <cstdint>

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class CsvData;
}  // namespace v1

// Tasks keep the numbers of CSV files of fewer bytes together in memory, and read the records of
// larger ones from the files (worker/data/csv/csv_dataset.h).
inline constexpr uint64_t kCsvKeptBelowBytes = uint64_t{1} << 30;

// An estimate from the lengths of CSV files and the first 64 KiB of the first one: all lines are
// taken to be like these, and all files to be packed as well as they are. Parquet files say how
// many examples they have.
struct CsvHead {
  // Number of examples; 0: the files cannot be read on this machine.
  uint64_t examples = 0;
  bool is_estimate = true;
  // Bytes that a task keeps of the files while it trains.
  uint64_t kept_bytes = 0;
  // Bytes that the largest file unpacks to; 0: files are not packed.
  uint64_t unpacked_bytes = 0;
};
CsvHead ReadCsvHead(const v1::CsvData& csv);

// Checks that the first CSV or Parquet file has the columns that the job names, as a task does that
// reads it all. InvalidArgument: as CsvHeader::Create, CsvColumnsOf and CheckIsText, or as
// ParquetFile::Open and FindInParquet. A file that cannot be
// read on this machine, or whose first 64 KiB do not hold its whole header, passes.
absl::Status CheckCsvHead(const v1::CsvData& csv);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_DATA_CSV_HEAD_H_
