#include "worker/data/csv/csv_records.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/csv/csv_header.h"

namespace muster {

CsvRecords::CsvRecords(const CsvText& text, const CsvColumns& columns,
                       absl::optional<CsvLayout>& layout)
    : text_(text),
      columns_(columns),
      layout_(layout),
      parser_(text.bytes(), text.path(), columns.separator),
      header_follows_(columns.header == CsvColumns::Header::kFirstLine) {}

absl::StatusOr<bool> CsvRecords::Next() {
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, parser_.Next(record_));
    if (!more) break;
    if (!layout_.has_value()) {
      MUSTER_ASSIGN_OR_RETURN(CsvHeader header,
                              CsvHeader::Create(text_.path(), columns_, record_, rest()));
      layout_.emplace(columns_, std::move(header));
    } else if (header_follows_) {
      MUSTER_RETURN_IF_ERROR(layout_->header().CheckSame(text_.path(), parser_.line(), record_));
    }
    if (!header_follows_) return true;
    header_follows_ = false;
    header_ = parser_.text();
  }
  if (header_follows_ || !layout_.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "CSV file '", text_.path(), "' holds blank lines only",
        header_follows_ ? "; its header is missing" : "; remove it, or check its origin"));
  }
  return false;
}

absl::Status CsvRecords::Append(std::vector<double>& numbers, std::vector<uint64_t>& keys) const {
  return layout_->Append(text_.path(), parser_.line(), record_, rest(), numbers, keys);
}

}  // namespace muster
