#ifndef MUSTER_COMMON_PARQUET_VALUE_DECODER_H_
#define MUSTER_COMMON_PARQUET_VALUE_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/parquet/bit_packing.h"
#include "common/parquet/page_reader.h"

namespace muster {

// A value of a column.
struct ParquetValue {
  enum class Kind { kBoolean, kSigned, kUnsigned, kFloat, kDouble, kBytes };
  Kind kind = Kind::kBytes;
  // A boolean or whole number; an unsigned one by its bits.
  int64_t integer = 0;
  // A floating-point number; one of 32 bits is exact.
  double number = 0;
  absl::string_view bytes;
};

// Decodes the values of a column's pages. Not thread-safe.
class ValueDecoder {
 public:
  explicit ValueDecoder(const ParquetColumn& column) : column_(column) {}

  // Begins a row group, which has a dictionary of its own or none.
  void Begin();

  // Copies the dictionary. InvalidArgument says what is wrong with it.
  absl::Status TakeDictionary(const ParquetPage& page);

  // Begins a page, which outlives the next calls. InvalidArgument says what is wrong with it.
  // Unimplemented names its encoding, which is not read.
  absl::Status TakePage(const ParquetPage& page);

  // Decodes the next value, valid until the next call. Returns false where the page is damaged or
  // ends.
  bool Next(ParquetValue& value);

 private:
  enum class Way { kPlain, kDictionary, kRuns, kDelta, kDeltaLengths, kDeltaBytes, kSplitBytes };

  bool TakePlain(absl::string_view& rest, ParquetValue& value);
  bool TakeSuffix(ParquetValue& value);
  bool TakeSplit(ParquetValue& value);
  // Returns the bytes that each value takes; 0: as many as it has.
  size_t width() const;
  bool is_integer() const {
    return column_.type == ParquetType::kInt32 || column_.type == ParquetType::kInt64;
  }
  void SetInteger(int64_t integer, ParquetValue& value) const;

  const ParquetColumn& column_;
  Way way_ = Way::kPlain;
  // Plain values, the bytes that lengths are of, or first all first bytes of values, then all
  // second ones, and so on.
  absl::string_view rest_;
  // The next of values in split bytes.
  size_t next_split_ = 0;
  std::string split_;
  // Reads plain booleans.
  uint64_t bit_ = 0;
  // Places in the dictionary, or booleans.
  RunDecoder runs_;
  // Whole numbers, or lengths; and the lengths of the prefix that a value shares with the last one.
  DeltaDecoder deltas_;
  DeltaDecoder prefixes_;
  std::string last_;
  bool has_dictionary_ = false;
  std::string dictionary_bytes_;
  std::vector<ParquetValue> dictionary_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_PARQUET_VALUE_DECODER_H_
