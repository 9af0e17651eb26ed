#include "common/parquet/page_reader.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/parquet/thrift_reader.h"

namespace muster {
namespace {

// So much is read at once, or as much as a page has.
constexpr size_t kWindowBytes = size_t{256} << 10;
// Headers have statistics with values of the page.
constexpr size_t kFirstHeaderBytes = 512;
constexpr size_t kMostHeaderBytes = size_t{16} << 20;
// PageType and Encoding of the format.
constexpr int kDataPage = 0, kIndexPage = 1, kDictionaryPage = 2, kSecondDataPage = 3;
constexpr int kRunLevels = 3;

absl::Status PageError(absl::string_view what) { return absl::InvalidArgumentError(what); }

// Takes levels with their length before them.
bool TakeLevels(absl::string_view& bytes, absl::string_view& levels) {
  uint32_t length = 0;
  if (bytes.size() < sizeof(length)) return false;
  std::memcpy(&length, bytes.data(), sizeof(length));
  bytes.remove_prefix(sizeof(length));
  if (length > bytes.size()) return false;
  levels = bytes.substr(0, length);
  bytes.remove_prefix(length);
  return true;
}

}  // namespace

struct PageReader::Header {
  int type = -1;
  int64_t packed_bytes = -1;
  int64_t unpacked_bytes = -1;
  std::optional<uint32_t> checksum;
  // These are of the page's own header, of whichever type.
  int64_t count = -1;
  int encoding = -1;
  int definition_encoding = kRunLevels;
  int repetition_encoding = kRunLevels;
  // Pages of the second version have these.
  int64_t definition_bytes = 0;
  int64_t repetition_bytes = 0;
  bool is_packed = true;

  void Read(ThriftReader& reader) {
    reader.Struct([&](int field) {
      if (field == 1) type = static_cast<int>(reader.Int());
      if (field == 2) unpacked_bytes = reader.Int();
      if (field == 3) packed_bytes = reader.Int();
      if (field == 4) checksum = static_cast<uint32_t>(reader.Int());
      if (field == 5) {
        reader.Struct([&](int of_page) {
          if (of_page == 1) count = reader.Int();
          if (of_page == 2) encoding = static_cast<int>(reader.Int());
          if (of_page == 3) definition_encoding = static_cast<int>(reader.Int());
          if (of_page == 4) repetition_encoding = static_cast<int>(reader.Int());
        });
      }
      if (field == 7) {
        reader.Struct([&](int of_page) {
          if (of_page == 1) count = reader.Int();
          if (of_page == 2) encoding = static_cast<int>(reader.Int());
        });
      }
      if (field == 8) {
        reader.Struct([&](int of_page) {
          if (of_page == 1) count = reader.Int();
          if (of_page == 4) encoding = static_cast<int>(reader.Int());
          if (of_page == 5) definition_bytes = reader.Int();
          if (of_page == 6) repetition_bytes = reader.Int();
          if (of_page == 7) is_packed = reader.Bool();
        });
      }
    });
  }
};

PageReader::PageReader(const ParquetFile& file, size_t column, const ParquetChunk& chunk)
    : file_(file),
      column_(file.schema().columns[column]),
      unpacker_(chunk.codec),
      next_(chunk.begin),
      end_(chunk.begin + chunk.bytes) {}

absl::Status PageReader::Fill(size_t count) {
  if (window_.size() - taken_ >= count) return absl::OkStatus();
  window_.erase(0, taken_);
  taken_ = 0;
  const size_t more =
      std::min<uint64_t>(std::max(count - window_.size(), kWindowBytes), end_ - next_);
  MUSTER_RETURN_IF_ERROR(file_.Read(next_, more, window_));
  next_ += more;
  if (window_.size() >= count) return absl::OkStatus();
  return PageError("a page ends behind the column's bytes");
}

absl::Status PageReader::ReadHeader(Header& header) {
  for (size_t bytes = kFirstHeaderBytes;; bytes *= 8) {
    const uint64_t left = window_.size() - taken_ + (end_ - next_);
    bytes = std::min<uint64_t>(bytes, left);
    MUSTER_RETURN_IF_ERROR(Fill(bytes));
    header = Header();
    ThriftReader reader(absl::string_view(window_).substr(taken_, bytes));
    header.Read(reader);
    if (!reader.failed()) {
      taken_ += reader.taken();
      return absl::OkStatus();
    }
    if (!reader.ended() || bytes == left || bytes >= kMostHeaderBytes) {
      return PageError("the header of a page cannot be read");
    }
  }
}

absl::StatusOr<bool> PageReader::Next(ParquetPage& page) {
  Header header;
  do {
    if (taken_ == window_.size() && next_ == end_) return false;
    MUSTER_RETURN_IF_ERROR(ReadHeader(header));
    if (header.packed_bytes < 0 || header.unpacked_bytes < 0) {
      return PageError("the header of a page cannot be read");
    }
    if (std::max(header.packed_bytes, header.unpacked_bytes) >
        static_cast<int64_t>(kMostPageBytes)) {
      return absl::UnimplementedError(
          absl::StrCat("a page of ", std::max(header.packed_bytes, header.unpacked_bytes),
                       " bytes, more than ", kMostPageBytes >> 20, " MiB"));
    }
    MUSTER_RETURN_IF_ERROR(Fill(header.packed_bytes));
    if (header.type == kIndexPage) taken_ += header.packed_bytes;
  } while (header.type == kIndexPage);
  const absl::string_view bytes = absl::string_view(window_).substr(taken_, header.packed_bytes);
  taken_ += header.packed_bytes;
  if (header.checksum.has_value() && crc32(0, reinterpret_cast<const Bytef*>(bytes.data()),
                                           static_cast<uInt>(bytes.size())) != *header.checksum) {
    return PageError("the checksum of a page is another one than its bytes have");
  }
  if (header.type != kDataPage && header.type != kDictionaryPage &&
      header.type != kSecondDataPage) {
    return PageError(absl::StrCat("a page has the unknown type ", header.type));
  }
  if (header.count < 0) return PageError("a page does not say how many values it has");
  page = ParquetPage();
  page.count = static_cast<uint64_t>(header.count);
  page.encoding = header.encoding;
  if (header.type == kSecondDataPage) {
    MUSTER_RETURN_IF_ERROR(CutSecondVersion(header, bytes, page));
    return true;
  }
  const absl::StatusOr<absl::string_view> unpacked = unpacker_.Unpack(bytes, header.unpacked_bytes);
  if (!unpacked.ok()) {
    return PageError(absl::StrCat("a page: ", std::string(unpacked.status().message())));
  }
  if (header.type == kDictionaryPage) {
    page.kind = ParquetPage::Kind::kDictionary;
    page.values = *unpacked;
    return true;
  }
  if ((column_.repetition > 0 && header.repetition_encoding != kRunLevels) ||
      (column_.definition > 0 && header.definition_encoding != kRunLevels)) {
    return absl::UnimplementedError("levels of the old encoding BIT_PACKED");
  }
  MUSTER_RETURN_IF_ERROR(CutFirstVersion(*unpacked, page));
  return true;
}

absl::Status PageReader::CutFirstVersion(absl::string_view bytes, ParquetPage& page) const {
  if ((column_.repetition > 0 && !TakeLevels(bytes, page.repetition_levels)) ||
      (column_.definition > 0 && !TakeLevels(bytes, page.definition_levels))) {
    return PageError("the levels of a page end early");
  }
  page.values = bytes;
  return absl::OkStatus();
}

absl::Status PageReader::CutSecondVersion(const Header& header, absl::string_view bytes,
                                          ParquetPage& page) {
  // Levels are never compressed.
  const int64_t levels = header.repetition_bytes + header.definition_bytes;
  if (header.repetition_bytes < 0 || header.definition_bytes < 0 ||
      levels > static_cast<int64_t>(bytes.size()) || levels > header.unpacked_bytes) {
    return PageError("the levels of a page end early");
  }
  page.repetition_levels = bytes.substr(0, header.repetition_bytes);
  page.definition_levels = bytes.substr(header.repetition_bytes, header.definition_bytes);
  page.values = bytes.substr(levels);
  // Some writers leave out the values of a page of nulls.
  if (!header.is_packed || page.values.empty()) return absl::OkStatus();
  const absl::StatusOr<absl::string_view> unpacked =
      unpacker_.Unpack(page.values, header.unpacked_bytes - levels);
  if (!unpacked.ok()) {
    return PageError(absl::StrCat("a page: ", std::string(unpacked.status().message())));
  }
  page.values = *unpacked;
  return absl::OkStatus();
}

}  // namespace muster
