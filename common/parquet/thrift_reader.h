#ifndef MUSTER_COMMON_PARQUET_THRIFT_READER_H_
#define MUSTER_COMMON_PARQUET_THRIFT_READER_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace muster {

// Reads one struct in Thrift's compact protocol, which Parquet's footers and page headers have,
// from bytes that anybody may have written. Whoever reads says what to do with each field; fields
// and elements that nobody takes are skipped. After a failure all reads return nothing, so a caller
// checks once, at the end. Every element takes a byte at least, so no count in the bytes makes a
// loop longer than they are. Not thread-safe.
class ThriftReader {
 public:
  // The struct begins where the bytes begin, and may end before them.
  explicit ThriftReader(absl::string_view bytes) : bytes_(bytes) {}

  // Gives `take` the number of each field of the struct that is next. `take` reads the field by one
  // call of this class, or leaves it out.
  void Struct(absl::FunctionRef<void(int field)> take);
  // Calls `take` for each element of the list that is next, as for a field.
  void List(absl::FunctionRef<void()> take);
  int64_t Int();
  bool Bool();
  // Valid as long as the bytes.
  absl::string_view Binary();

  // Makes all reads fail: a value is impossible.
  void Fail() { failed_ = true; }

  // Returns whether anything failed: the bytes are damaged or end early.
  bool failed() const { return failed_; }
  // Returns whether they end early. More of them may be sound.
  bool ended() const { return ended_; }
  // Returns how many bytes the struct took. REQUIRES: nothing failed.
  size_t taken() const { return next_; }

 private:
  enum class Type : uint8_t;

  uint8_t Byte();
  uint64_t Varint();
  int64_t ZigZag();
  absl::string_view Bytes(uint64_t count);
  // Takes the value that is next if it is of this type; fails otherwise.
  bool Take(Type type);
  void TakeElements(Type key, Type value, uint64_t count);
  // Skips the value that is next, unless it was taken.
  void SkipRest();

  const absl::string_view bytes_;
  size_t next_ = 0;
  // Type of the value that is next.
  Type type_{12};
  bool taken_ = false;
  // A boolean field is a part of its header, an element is a byte.
  bool in_list_ = false;
  int depth_ = 0;
  bool failed_ = false;
  bool ended_ = false;
};

}  // namespace muster

#endif  // MUSTER_COMMON_PARQUET_THRIFT_READER_H_
