#include "common/job_data/csv_head.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/csv/csv_columns.h"
#include "common/csv/csv_header.h"
#include "common/csv/csv_parser.h"
#include "common/csv/parquet_table.h"
#include "common/files/check_is_text.h"
#include "common/files/open_regular_file.h"
#include "common/files/path_pattern.h"
#include "common/parquet/parquet_file.h"
#include "common/text/byte_order_mark.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr size_t kCsvHeadBytes = 64 << 10;
// Bytes kept of an example in a large file: where its record begins, and its label.
constexpr uint64_t kPlaceBytes = 12;

// The first whole lines of a file.
struct CsvLines {
  // Unpacked, and without a byte-order mark; empty: the file cannot be read.
  std::string text;
  double count = 0;
  // Bytes of the lines, unpacked, and in the file.
  double bytes = 0;
  double bytes_in_file = 0;
  bool packed = false;
};

CsvLines FirstCsvLines(const std::string& path) {
  const absl::StatusOr<OpenedFile> opened = OpenRegularFile(path);
  if (!opened.ok()) return {};
  // Reads files that are not packed as they are.
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzdopen(opened->descriptor, "rb"), gzclose);
  if (file == nullptr) {
    close(opened->descriptor);
    return {};
  }
  std::string head(kCsvHeadBytes, '\0');
  const int read = gzread(file.get(), head.data(), head.size());
  if (read <= 0) return {};
  head.resize(read);
  CsvLines lines;
  lines.packed = gzdirect(file.get()) == 0;
  const double in_file = static_cast<double>(
      std::min<uint64_t>(opened->size, std::max<z_off_t>(1, gzoffset(file.get()))));
  const double ratio = lines.packed ? in_file / read : 1;
  const size_t end = head.rfind('\n');
  if (end == std::string::npos) return {};
  head.resize(end + 1);
  lines.count = static_cast<double>(std::count(head.begin(), head.end(), '\n'));
  lines.bytes = static_cast<double>(head.size());
  lines.bytes_in_file = lines.bytes * ratio;
  lines.text = std::string(SkipByteOrderMark(head));
  return lines;
}

// Returns the bytes that a task keeps of examples as numbers.
uint64_t BytesAsNumbers(const v1::CsvData& csv, uint64_t examples) {
  return examples * (4 * csv.numeric_size() + 8 * csv.categorical_size() + sizeof(int32_t));
}

CsvHead ReadParquetHead(const v1::CsvData& csv, const std::vector<std::string>& paths) {
  CsvHead head;
  head.is_estimate = false;
  for (const std::string& path : paths) {
    const auto file = ParquetFile::Open(path);
    if (!file.ok()) return {};
    head.examples += static_cast<uint64_t>((*file)->rows());
  }
  head.kept_bytes = BytesAsNumbers(csv, head.examples);
  return head;
}

}  // namespace

CsvHead ReadCsvHead(const v1::CsvData& csv) {
  const absl::StatusOr<std::vector<std::string>> paths = FilesOfPattern(csv.path());
  if (!paths.ok()) return {};
  if (IsParquetAt(paths->front())) return ReadParquetHead(csv, *paths);
  uint64_t bytes = 0;
  uint64_t largest = 0;
  for (const std::string& path : *paths) {
    std::error_code error;
    const uint64_t of_file = std::filesystem::file_size(path, error);
    if (error) return {};
    bytes += of_file;
    largest = std::max(largest, of_file);
  }
  const CsvLines lines = FirstCsvLines(paths->front());
  if (lines.count == 0) return {};
  const double packing = lines.bytes / lines.bytes_in_file;
  CsvHead head;
  head.examples =
      static_cast<uint64_t>(static_cast<double>(bytes) / lines.bytes_in_file * lines.count);
  if (lines.packed) head.unpacked_bytes = static_cast<uint64_t>(packing * largest);
  if (bytes < kCsvKeptBelowBytes) {
    head.kept_bytes = BytesAsNumbers(csv, head.examples);
  } else {
    head.kept_bytes = head.examples * kPlaceBytes;
    if (lines.packed) head.kept_bytes += static_cast<uint64_t>(packing * bytes);
  }
  return head;
}

absl::Status CheckCsvHead(const v1::CsvData& csv) {
  MUSTER_ASSIGN_OR_RETURN(const CsvColumns columns, CsvColumnsOf(csv));
  MUSTER_RETURN_IF_ERROR(CheckColumns(columns));
  const absl::StatusOr<std::vector<std::string>> paths = FilesOfPattern(csv.path());
  if (!paths.ok()) return absl::OkStatus();
  const std::string& path = paths->front();
  if (IsParquetAt(path)) {
    MUSTER_ASSIGN_OR_RETURN(const auto file, ParquetFile::Open(path));
    return FindInParquet(*file, columns).status();
  }
  const CsvLines lines = FirstCsvLines(path);
  if (lines.text.empty()) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(CheckIsText(path, lines.text));
  CsvParser parser(lines.text, path, columns.separator);
  std::vector<std::string> record;
  const absl::StatusOr<bool> more = parser.Next(record);
  // A header that the beginning does not hold whole looks malformed.
  if (!more.ok() || !*more) return absl::OkStatus();
  const absl::string_view rest = absl::string_view(lines.text).substr(parser.offset());
  return CsvHeader::Create(path, columns, record, rest).status();
}

}  // namespace muster
