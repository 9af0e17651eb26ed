#include "worker/data/datasets/idx_file.h"

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/machine/usable_resources.h"
#include "common/base/status_macros.h"
#include "common/compression/gzip.h"
#include "common/files/file_content.h"

namespace muster {
namespace {

constexpr size_t kMagicBytes = 4;
constexpr size_t kDimensionBytes = 4;
constexpr size_t kMostDimensions = 255;
constexpr uint8_t kUnsignedByte = 0x08;

struct Header {
  std::vector<int64_t> dimensions;
  size_t header_bytes = 0;
  size_t total_bytes = 0;
};

absl::Status Malformed(const std::string& path, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("IDX file '", path, "': ", message));
}

int64_t BigEndian32(absl::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < kDimensionBytes; ++i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

// `start` holds the file's first bytes: the whole header, unless the file is shorter.
absl::StatusOr<Header> ParseHeader(const std::string& path, absl::string_view start) {
  if (start.size() < kMagicBytes || start[0] != 0 || start[1] != 0) {
    return Malformed(path,
                     "does not begin with the bytes 0000 08 and the number of dimensions; name a "
                     "file in IDX format");
  }
  if (static_cast<uint8_t>(start[2]) != kUnsignedByte) {
    return Malformed(path,
                     "holds elements of another type than unsigned bytes, 0x08; only these can be "
                     "read, convert it");
  }
  const size_t dimensions = static_cast<uint8_t>(start[3]);
  Header header;
  header.header_bytes = kMagicBytes + dimensions * kDimensionBytes;
  if (dimensions == 0) return Malformed(path, "has no dimensions; at least 1 is needed");
  if (start.size() < header.header_bytes) {
    return Malformed(path, absl::StrCat("is truncated: expected a header of ", header.header_bytes,
                                        " bytes, actual size is ", start.size(), " bytes"));
  }
  size_t elements = 1;
  for (size_t d = 0; d < dimensions; ++d) {
    const int64_t size = BigEndian32(start.substr(kMagicBytes + d * kDimensionBytes));
    header.dimensions.push_back(size);
    if (size == 0) {
      return Malformed(path, absl::StrCat("is empty: its dimensions are ",
                                          absl::StrJoin(header.dimensions, " x ")));
    }
    if (elements > static_cast<size_t>(std::numeric_limits<int64_t>::max()) / 2 / size) {
      return Malformed(path,
                       absl::StrCat("claims dimensions ", absl::StrJoin(header.dimensions, " x "),
                                    " and more, beyond 2^62 bytes; the header is damaged"));
    }
    elements *= size;
  }
  header.total_bytes = header.header_bytes + elements;
  return header;
}

absl::Status CheckSize(const std::string& path, const Header& header, size_t actual) {
  if (actual == header.total_bytes) return absl::OkStatus();
  const bool truncated = actual < header.total_bytes;
  return Malformed(
      path, absl::StrCat(truncated ? "is truncated" : "is too long", ": dimensions ",
                         absl::StrJoin(header.dimensions, " x "), " expect ", header.total_bytes,
                         " bytes, actual size is ", truncated ? "" : "at least ", actual,
                         " bytes; fetch the file again"));
}

// Checks, before anything is unpacked, that the packed bytes can unpack to what the header says,
// and that this machine has memory for that.
absl::Status CheckClaim(const std::string& path, const Header& header, size_t packed) {
  // Two bits of deflate data unpack to at most 258 bytes.
  constexpr uint64_t kMostOfAByte = 1032;
  if (header.total_bytes / kMostOfAByte > packed) {
    return Malformed(
        path, absl::StrCat("is truncated: dimensions ", absl::StrJoin(header.dimensions, " x "),
                           " expect ", header.total_bytes, " bytes, for which ", packed,
                           " packed ones are too few; fetch the file again"));
  }
  const uint64_t most = FindUsableResources().memory_bytes / 2;
  if (most == 0 || header.total_bytes <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("IDX file '", path, "' has dimensions ", absl::StrJoin(header.dimensions, " x "),
                   ", ", header.total_bytes, " bytes in memory; half of this machine's memory is ",
                   most, ": split the file, or use a machine with more memory"));
}

// Puts the path before the message. DataLoss becomes InvalidArgument, since the input is at fault.
absl::Status GzipError(const std::string& path, absl::string_view expected,
                       const absl::Status& status) {
  return Malformed(path, absl::StrCat(status.message(), expected, "; fetch the file again"));
}

}  // namespace

absl::StatusOr<IdxArray> ReadIdxFile(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const FileContent file, OpenNonEmpty(path));
  const absl::string_view bytes = file.bytes();
  if (!IsGzip(bytes)) {
    MUSTER_ASSIGN_OR_RETURN(Header header, ParseHeader(path, bytes));
    MUSTER_RETURN_IF_ERROR(CheckSize(path, header, bytes.size()));
    return IdxArray{std::move(header.dimensions), std::string(bytes.substr(header.header_bytes))};
  }
  // Unpacks the header first: it says how much to unpack, so packed data cannot fill the memory.
  const absl::StatusOr<std::string> start =
      Gunzip(bytes, kMagicBytes + kMostDimensions * kDimensionBytes);
  if (!start.ok()) return GzipError(path, "", start.status());
  MUSTER_ASSIGN_OR_RETURN(Header header, ParseHeader(path, *start));
  MUSTER_RETURN_IF_ERROR(CheckClaim(path, header, bytes.size()));
  absl::StatusOr<std::string> content = Gunzip(bytes, header.total_bytes + 1);
  if (!content.ok()) {
    return GzipError(path, absl::StrCat(" of the expected ", header.total_bytes, " bytes"),
                     content.status());
  }
  MUSTER_RETURN_IF_ERROR(CheckSize(path, header, content->size()));
  content->erase(0, header.header_bytes);
  return IdxArray{std::move(header.dimensions), *std::move(content)};
}

}  // namespace muster
