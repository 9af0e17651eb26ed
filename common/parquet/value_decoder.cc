#include "common/parquet/value_decoder.h"

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

// Encoding of the format.
constexpr int kPlainEncoding = 0, kPlainDictionary = 2, kRunLength = 3, kDeltaBinaryPacked = 5,
              kDeltaLengthByteArray = 6, kDeltaByteArray = 7, kRunLengthDictionary = 8,
              kByteStreamSplit = 9;
constexpr std::array<absl::string_view, 10> kEncodings = {
    "PLAIN",          "the unknown encoding 1", "PLAIN_DICTIONARY",        "RLE",
    "BIT_PACKED",     "DELTA_BINARY_PACKED",    "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
    "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"};
constexpr int kMostIndexBits = 32;
// A value takes some ten times as much memory as in the file; writers make dictionaries of a MiB.
constexpr size_t kMostDictionaryBytes = size_t{32} << 20;

template <typename T>
bool TakeNumber(absl::string_view& rest, T& number) {
  if (rest.size() < sizeof(T)) return false;
  std::memcpy(&number, rest.data(), sizeof(T));
  rest.remove_prefix(sizeof(T));
  return true;
}

bool TakeBytes(absl::string_view& rest, uint64_t count, absl::string_view& bytes) {
  if (count > rest.size()) return false;
  bytes = rest.substr(0, count);
  rest.remove_prefix(count);
  return true;
}

// Returns the bytes behind all numbers.
bool BehindAll(DeltaDecoder numbers, absl::string_view& rest) {
  int64_t number = 0;
  while (numbers.left() > 0) {
    if (!numbers.Next(number)) return false;
  }
  rest = numbers.rest();
  return true;
}

}  // namespace

void ValueDecoder::Begin() {
  has_dictionary_ = false;
  dictionary_.clear();
}

void ValueDecoder::SetInteger(int64_t integer, ParquetValue& value) const {
  value.kind = column_.is_signed ? ParquetValue::Kind::kSigned : ParquetValue::Kind::kUnsigned;
  value.integer = integer;
  if (column_.type != ParquetType::kInt32) return;
  value.integer = column_.is_signed ? int64_t{static_cast<int32_t>(integer)}
                                    : int64_t{static_cast<uint32_t>(integer)};
}

bool ValueDecoder::TakePlain(absl::string_view& rest, ParquetValue& value) {
  switch (column_.type) {
    case ParquetType::kBoolean:
      if (bit_ / 8 >= rest.size()) return false;
      value.kind = ParquetValue::Kind::kBoolean;
      value.integer = static_cast<int64_t>(BitsAt(rest, bit_++, 1));
      return true;
    case ParquetType::kInt32: {
      int32_t number = 0;
      if (!TakeNumber(rest, number)) return false;
      SetInteger(number, value);
      return true;
    }
    case ParquetType::kInt64: {
      int64_t number = 0;
      if (!TakeNumber(rest, number)) return false;
      SetInteger(number, value);
      return true;
    }
    case ParquetType::kFloat: {
      float number = 0;
      if (!TakeNumber(rest, number)) return false;
      value.kind = ParquetValue::Kind::kFloat;
      value.number = number;
      return true;
    }
    case ParquetType::kDouble:
      value.kind = ParquetValue::Kind::kDouble;
      return TakeNumber(rest, value.number);
    case ParquetType::kBytes: {
      uint32_t length = 0;
      value.kind = ParquetValue::Kind::kBytes;
      return TakeNumber(rest, length) && TakeBytes(rest, length, value.bytes);
    }
    case ParquetType::kFixedBytes:
      value.kind = ParquetValue::Kind::kBytes;
      return TakeBytes(rest, column_.fixed_bytes, value.bytes);
    case ParquetType::kInt96:
      break;
  }
  return false;
}

absl::Status ValueDecoder::TakeDictionary(const ParquetPage& page) {
  if (has_dictionary_) return absl::InvalidArgumentError("it has two dictionaries");
  if (page.encoding != kPlainEncoding && page.encoding != kPlainDictionary) {
    return absl::InvalidArgumentError("its dictionary is not plain");
  }
  if (column_.type == ParquetType::kBoolean) {
    return absl::InvalidArgumentError("it has a dictionary of booleans");
  }
  if (page.values.size() > kMostDictionaryBytes) {
    return absl::InvalidArgumentError(absl::StrCat("its dictionary has ", page.values.size(),
                                                   " bytes, more than ", kMostDictionaryBytes >> 20,
                                                   " MiB"));
  }
  has_dictionary_ = true;
  dictionary_bytes_.assign(page.values.data(), page.values.size());
  absl::string_view rest = dictionary_bytes_;
  for (uint64_t i = 0; i < page.count; ++i) {
    // Each value takes bytes, so a count that is too large ends early.
    if (!TakePlain(rest, dictionary_.emplace_back())) {
      return absl::InvalidArgumentError("its dictionary ends early");
    }
  }
  return absl::OkStatus();
}

absl::Status ValueDecoder::TakePage(const ParquetPage& page) {
  rest_ = page.values;
  bit_ = 0;
  const bool is_bytes = column_.type == ParquetType::kBytes;
  switch (page.encoding) {
    case kPlainEncoding:
      way_ = Way::kPlain;
      return absl::OkStatus();
    case kPlainDictionary:
    case kRunLengthDictionary: {
      way_ = Way::kDictionary;
      if (!has_dictionary_) return absl::InvalidArgumentError("it has no dictionary");
      // A page of nulls may be empty.
      const int bits = rest_.empty() ? 0 : static_cast<unsigned char>(rest_.front());
      if (bits > kMostIndexBits) {
        return absl::InvalidArgumentError("places in its dictionary are too wide");
      }
      runs_ = RunDecoder(rest_.empty() ? rest_ : rest_.substr(1), bits);
      return absl::OkStatus();
    }
    case kRunLength: {
      if (column_.type != ParquetType::kBoolean) break;
      way_ = Way::kRuns;
      uint32_t length = 0;
      absl::string_view runs;
      if (!rest_.empty() && (!TakeNumber(rest_, length) || !TakeBytes(rest_, length, runs))) {
        return absl::InvalidArgumentError("the booleans of a page end early");
      }
      runs_ = RunDecoder(runs, 1);
      return absl::OkStatus();
    }
    case kDeltaBinaryPacked:
      if (!is_integer()) break;
      way_ = Way::kDelta;
      deltas_ = DeltaDecoder();
      if (rest_.empty() || deltas_.Start(rest_)) return absl::OkStatus();
      return absl::InvalidArgumentError("the differences of a page cannot be read");
    case kDeltaByteArray:
    case kDeltaLengthByteArray: {
      if (!is_bytes) break;
      way_ = Way::kDeltaLengths;
      deltas_ = prefixes_ = DeltaDecoder();
      last_.clear();
      if (rest_.empty()) return absl::OkStatus();
      absl::string_view lengths = rest_;
      if (page.encoding == kDeltaByteArray) {
        way_ = Way::kDeltaBytes;
        if (!prefixes_.Start(rest_) || !BehindAll(prefixes_, lengths)) {
          return absl::InvalidArgumentError("the lengths of a page cannot be read");
        }
      }
      if (deltas_.Start(lengths) && BehindAll(deltas_, rest_)) return absl::OkStatus();
      return absl::InvalidArgumentError("the lengths of a page cannot be read");
    }
    case kByteStreamSplit:
      if (width() == 0) break;
      way_ = Way::kSplitBytes;
      next_split_ = 0;
      return absl::OkStatus();
    default:
      break;
  }
  const bool is_known = page.encoding >= 0 && page.encoding < static_cast<int>(kEncodings.size());
  return absl::UnimplementedError(
      absl::StrCat("values encoded by ",
                   is_known ? kEncodings[page.encoding] : absl::string_view("an unknown way")));
}

bool ValueDecoder::TakeSuffix(ParquetValue& value) {
  int64_t prefix = 0, suffix = 0;
  absl::string_view bytes;
  if (!prefixes_.Next(prefix) || !deltas_.Next(suffix) || prefix < 0 || suffix < 0 ||
      static_cast<uint64_t>(prefix) > last_.size() ||
      !TakeBytes(rest_, static_cast<uint64_t>(suffix), bytes)) {
    return false;
  }
  last_.resize(static_cast<size_t>(prefix));
  last_.append(bytes.data(), bytes.size());
  value.kind = ParquetValue::Kind::kBytes;
  value.bytes = last_;
  return true;
}

size_t ValueDecoder::width() const {
  switch (column_.type) {
    case ParquetType::kInt32:
    case ParquetType::kFloat:
      return 4;
    case ParquetType::kInt64:
    case ParquetType::kDouble:
      return 8;
    case ParquetType::kFixedBytes:
      return column_.fixed_bytes;
    default:
      return 0;
  }
}

bool ValueDecoder::TakeSplit(ParquetValue& value) {
  const size_t count = rest_.size() / width();
  if (next_split_ >= count) return false;
  split_.clear();
  for (size_t i = 0; i < width(); ++i) split_ += rest_[i * count + next_split_];
  ++next_split_;
  absl::string_view bytes = split_;
  return TakePlain(bytes, value);
}

bool ValueDecoder::Next(ParquetValue& value) {
  switch (way_) {
    case Way::kPlain:
      return TakePlain(rest_, value);
    case Way::kDictionary: {
      uint32_t place = 0;
      if (!runs_.Next(place) || place >= dictionary_.size()) return false;
      value = dictionary_[place];
      return true;
    }
    case Way::kRuns: {
      uint32_t boolean = 0;
      value.kind = ParquetValue::Kind::kBoolean;
      if (!runs_.Next(boolean)) return false;
      value.integer = boolean;
      return true;
    }
    case Way::kDelta: {
      int64_t integer = 0;
      if (!deltas_.Next(integer)) return false;
      SetInteger(integer, value);
      return true;
    }
    case Way::kDeltaLengths: {
      int64_t length = 0;
      value.kind = ParquetValue::Kind::kBytes;
      return deltas_.Next(length) && length >= 0 &&
             TakeBytes(rest_, static_cast<uint64_t>(length), value.bytes);
    }
    case Way::kDeltaBytes:
      return TakeSuffix(value);
    case Way::kSplitBytes:
      return TakeSplit(value);
  }
  return false;
}

}  // namespace muster
