#ifndef MUSTER_COMMON_RPC_EXTREME_MESSAGES_H_
#define MUSTER_COMMON_RPC_EXTREME_MESSAGES_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace muster {

// Fills messages, in tests, with values from the ends of their types' ranges, and with known ids.
// The same seed draws the same values.
class Extremes {
 public:
  explicit Extremes(uint64_t seed) : random_(seed) {}

  // Ids that exist, so that requests get past their first check.
  std::vector<std::string> known;

  uint64_t Draw(uint64_t below) { return random_() % below; }

  // Changes about one field in `rarity` of a message, at any depth.
  void Fill(google::protobuf::Message& message, uint64_t rarity, int depth = 0);

 private:
  uint64_t Number();
  double Real();
  std::string Text();
  void Set(google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field,
           uint64_t rarity, int depth);
  void Add(google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field,
           uint64_t rarity, int depth);

  std::mt19937_64 random_;
};

// Limits the test's address space to `more_bytes` more than now. Does nothing under sanitizers,
// which reserve far more than they use.
void LimitMemory(uint64_t more_bytes);

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_EXTREME_MESSAGES_H_
