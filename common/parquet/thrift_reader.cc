#include "common/parquet/thrift_reader.h"

namespace muster {
namespace {

// Deeper values than any footer has.
constexpr int kMostThriftDepth = 32;
constexpr int kMostVarintBytes = 10;

}  // namespace

enum class ThriftReader::Type : uint8_t {
  kStop = 0,
  kTrue = 1,
  kFalse = 2,
  kByte = 3,
  kInt16 = 4,
  kInt32 = 5,
  kInt64 = 6,
  kDouble = 7,
  kBinary = 8,
  kList = 9,
  kSet = 10,
  kMap = 11,
  kStruct = 12,
};

uint8_t ThriftReader::Byte() {
  if (failed_ || next_ == bytes_.size()) {
    ended_ = ended_ || !failed_;
    failed_ = true;
    return 0;
  }
  return static_cast<uint8_t>(bytes_[next_++]);
}

uint64_t ThriftReader::Varint() {
  uint64_t value = 0;
  for (int i = 0; i < kMostVarintBytes && !failed_; ++i) {
    const uint8_t byte = Byte();
    value |= uint64_t{byte & 0x7fu} << (7 * i);
    if ((byte & 0x80) == 0) return value;
  }
  failed_ = true;
  return 0;
}

int64_t ThriftReader::ZigZag() {
  const uint64_t value = Varint();
  return static_cast<int64_t>(value >> 1 ^ (0 - (value & 1)));
}

absl::string_view ThriftReader::Bytes(uint64_t count) {
  if (failed_ || count > bytes_.size() - next_) {
    ended_ = ended_ || !failed_;
    failed_ = true;
    return {};
  }
  const absl::string_view bytes = bytes_.substr(next_, count);
  next_ += count;
  return bytes;
}

bool ThriftReader::Take(Type type) {
  if (type_ != type || taken_) failed_ = true;
  taken_ = true;
  return !failed_;
}

void ThriftReader::Struct(absl::FunctionRef<void(int field)> take) {
  if (!Take(Type::kStruct)) return;
  if (++depth_ > kMostThriftDepth) failed_ = true;
  int64_t field = 0;
  while (!failed_) {
    const uint8_t head = Byte();
    if ((head & 0x0f) == 0) break;
    const int delta = head >> 4;
    field = delta == 0 ? ZigZag() : field + delta;
    // Fields are numbered by 16 bits.
    if (field < INT16_MIN || field > INT16_MAX) failed_ = true;
    type_ = static_cast<Type>(head & 0x0f);
    taken_ = false;
    in_list_ = false;
    take(static_cast<int>(field));
    SkipRest();
  }
  --depth_;
  taken_ = true;
}

void ThriftReader::List(absl::FunctionRef<void()> take) {
  if (!Take(Type::kList)) return;
  if (++depth_ > kMostThriftDepth) failed_ = true;
  const uint8_t head = Byte();
  const uint64_t count = head >> 4 == 0x0f ? Varint() : head >> 4;
  for (uint64_t i = 0; i < count && !failed_; ++i) {
    type_ = static_cast<Type>(head & 0x0f);
    taken_ = false;
    in_list_ = true;
    take();
    SkipRest();
  }
  --depth_;
  taken_ = true;
}

int64_t ThriftReader::Int() {
  if (type_ == Type::kByte && !taken_) {
    taken_ = true;
    return static_cast<int8_t>(Byte());
  }
  if (type_ == Type::kInt16 || type_ == Type::kInt32) {
    const Type type = type_;
    if (!Take(type)) return 0;
    const int64_t value = ZigZag();
    if (value < INT32_MIN || value > INT32_MAX) failed_ = true;
    return failed_ ? 0 : value;
  }
  return Take(Type::kInt64) ? ZigZag() : 0;
}

bool ThriftReader::Bool() {
  if ((type_ != Type::kTrue && type_ != Type::kFalse) || taken_) {
    failed_ = true;
    return false;
  }
  taken_ = true;
  return in_list_ ? Byte() == 1 : type_ == Type::kTrue;
}

absl::string_view ThriftReader::Binary() {
  return Take(Type::kBinary) ? Bytes(Varint()) : absl::string_view();
}

void ThriftReader::TakeElements(Type key, Type value, uint64_t count) {
  if (++depth_ > kMostThriftDepth) failed_ = true;
  for (uint64_t i = 0; i < count && !failed_; ++i) {
    for (const Type type : {key, value}) {
      if (type == Type::kStop) continue;
      type_ = type;
      taken_ = false;
      in_list_ = true;
      SkipRest();
    }
  }
  --depth_;
}

void ThriftReader::SkipRest() {
  if (failed_ || taken_) return;
  switch (type_) {
    case Type::kTrue:
    case Type::kFalse:
      Bool();
      break;
    case Type::kByte:
    case Type::kInt16:
    case Type::kInt32:
    case Type::kInt64:
      Int();
      break;
    case Type::kDouble:
      Bytes(sizeof(double));
      break;
    case Type::kBinary:
      Binary();
      break;
    case Type::kStruct:
      Struct([](int) {});
      break;
    case Type::kList:
    case Type::kSet: {
      const uint8_t head = Byte();
      const uint64_t count = head >> 4 == 0x0f ? Varint() : head >> 4;
      const Type element = static_cast<Type>(head & 0x0f);
      if (element == Type::kStop && count > 0) failed_ = true;
      TakeElements(Type::kStop, element, count);
      break;
    }
    case Type::kMap: {
      const uint64_t count = Varint();
      if (count == 0) break;
      const uint8_t head = Byte();
      if (head >> 4 == 0 || (head & 0x0f) == 0) failed_ = true;
      TakeElements(static_cast<Type>(head >> 4), static_cast<Type>(head & 0x0f), count);
      break;
    }
    default:
      failed_ = true;
  }
  taken_ = true;
}

}  // namespace muster
