#ifndef MUSTER_COMMON_CHECKPOINT_PARTITION_FILE_LAYOUT_H_
#define MUSTER_COMMON_CHECKPOINT_PARTITION_FILE_LAYOUT_H_

#include <cstdint>
#include <vector>

namespace muster {

namespace v1 {
class PartitionFileHeader;
}  // namespace v1

// Offsets of the arrays of a partition file (proto/checkpoint.proto has the format), counted from
// the first array. A pure function of the file's header, of any version.
class PartitionFileLayout {
 public:
  // Rows of a sparse piece that were appended together: arrays of their keys, steps, last uses and
  // values.
  struct Group {
    uint64_t rows = 0;
    uint64_t offset = 0;

    uint64_t keys() const { return offset; }
    uint64_t steps() const { return keys() + rows * sizeof(uint64_t); }
    uint64_t last_use() const { return steps() + rows * sizeof(uint32_t); }
    uint64_t values() const { return last_use() + rows * sizeof(uint32_t); }
  };

  struct Dropped {
    uint64_t keys = 0;
    uint64_t offset = 0;
  };

  // REQUIRES: DataBytes() of the header is no more than a file can have.
  explicit PartitionFileLayout(const v1::PartitionFileHeader& header);

  // Returns the offset of an array of a dense piece: 0 is the weights, 1 + i state array i.
  uint64_t Dense(int piece, int array) const {
    return dense_[piece].offset + array * dense_[piece].array_bytes;
  }
  const std::vector<Group>& groups(int piece) const { return sparse_[piece].groups; }
  const Dropped& dropped(int piece) const { return sparse_[piece].dropped; }

  // Returns the bytes of all arrays; the largest number when the header's sizes add up to more.
  static uint64_t DataBytes(const v1::PartitionFileHeader& header);

 private:
  struct DenseArrays {
    uint64_t offset = 0;
    uint64_t array_bytes = 0;
  };
  struct Sparse {
    std::vector<Group> groups;
    Dropped dropped;
  };

  std::vector<DenseArrays> dense_;
  std::vector<Sparse> sparse_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_PARTITION_FILE_LAYOUT_H_
