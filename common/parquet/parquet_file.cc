#include "common/parquet/parquet_file.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/files/file_error.h"
#include "common/files/open_regular_file.h"
#include "common/parquet/parquet_error.h"

namespace muster {
namespace {

constexpr absl::string_view kMagic = "PAR1";
constexpr absl::string_view kEncryptedMagic = "PARE";
// Length of the metadata and the mark behind them.
constexpr size_t kTailBytes = 8;
// Metadata of thousands of columns and row groups have some ten MiB.
constexpr uint64_t kMostFooterBytes = uint64_t{64} << 20;

}  // namespace

bool IsParquet(absl::string_view bytes) {
  return absl::StartsWith(bytes, kMagic) || absl::StartsWith(bytes, kEncryptedMagic);
}

bool IsParquetAt(const std::string& path) {
  const absl::StatusOr<OpenedFile> opened = OpenRegularFile(path);
  if (!opened.ok()) return false;
  std::array<char, kMagic.size()> head;
  const ssize_t got = pread(opened->descriptor, head.data(), head.size(), 0);
  close(opened->descriptor);
  return got == static_cast<ssize_t>(head.size()) &&
         IsParquet(absl::string_view(head.data(), head.size()));
}

ParquetFile::ParquetFile(std::string path, int descriptor, uint64_t size)
    : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

ParquetFile::~ParquetFile() { close(descriptor_); }

absl::StatusOr<std::unique_ptr<const ParquetFile>> ParquetFile::Open(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const OpenedFile opened, OpenRegularFile(path));
  auto file = absl::WrapUnique(new ParquetFile(path, opened.descriptor, opened.size));
  MUSTER_RETURN_IF_ERROR(file->ReadFooter());
  return std::unique_ptr<const ParquetFile>(std::move(file));
}

absl::Status ParquetFile::ReadFooter() {
  std::string bytes;
  if (size_ < kMagic.size() + kTailBytes) {
    return DamagedParquet(path_, "", absl::StrCat("it has ", size_, " bytes only"));
  }
  MUSTER_RETURN_IF_ERROR(Read(0, kMagic.size(), bytes));
  MUSTER_RETURN_IF_ERROR(Read(size_ - kTailBytes, kTailBytes, bytes));
  if (absl::StartsWith(bytes, kEncryptedMagic) || absl::EndsWith(bytes, kEncryptedMagic)) {
    return RefusedParquet(path_, "", "encrypted metadata", "write the file without encryption");
  }
  if (!absl::StartsWith(bytes, kMagic)) {
    return DamagedParquet(path_, "", "it does not begin as a Parquet file");
  }
  if (!absl::EndsWith(bytes, kMagic)) {
    return DamagedParquet(path_, "", "it does not end as a Parquet file, so it was cut off");
  }
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + kMagic.size(), sizeof(length));
  if (length > size_ - kMagic.size() - kTailBytes || length > kMostFooterBytes) {
    return DamagedParquet(path_, "", absl::StrCat("its metadata should have ", length, " bytes"));
  }
  const uint64_t data_bytes = size_ - kTailBytes - length;
  bytes.clear();
  MUSTER_RETURN_IF_ERROR(Read(data_bytes, length, bytes));
  absl::StatusOr<ParquetFooter> footer = ReadParquetFooter(bytes, data_bytes);
  if (!footer.ok()) return DamagedParquet(path_, "", footer.status().message());
  footer_ = *std::move(footer);
  return absl::OkStatus();
}

std::optional<size_t> ParquetFile::Find(absl::string_view name) const {
  const std::vector<ParquetNode>& fields = schema().fields;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == name) return i;
  }
  return std::nullopt;
}

absl::Status ParquetFile::Read(uint64_t offset, size_t count, std::string& bytes) const {
  const size_t begin = bytes.size();
  bytes.resize(begin + count);
  size_t filled = 0;
  while (filled < count) {
    const ssize_t got = pread(descriptor_, bytes.data() + begin + filled, count - filled,
                              static_cast<off_t>(offset + filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError("read", path_, errno);
    if (got == 0) {
      return absl::DataLossError(
          absl::StrCat(path_, " ends at byte ", offset + filled, ", but had ", size_,
                       " when it was opened; do not change it while ", "it is read"));
    }
    filled += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace muster
