#include "common/rpc/extreme_messages.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <iterator>
#include <limits>

namespace muster {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void Extremes::Fill(Message& message, uint64_t rarity, int depth) {
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!is_message && Draw(rarity) != 0) continue;
    if (is_message) {
      // Present messages are always filled; absent ones are seldom made.
      const bool there = !field.is_repeated() && message.GetReflection()->HasField(message, &field);
      if (depth > 5 || (!there && Draw(rarity) != 0)) continue;
    }
    if (field.is_repeated()) {
      const uint64_t count = Draw(20) == 0 ? 5000 : Draw(4);
      // The elements of a long list are alike, so few of their fields change.
      for (uint64_t n = 0; n < count; ++n) Add(message, field, count < 10 ? rarity : 1000, depth);
    } else {
      Set(message, field, rarity, depth);
    }
  }
}

uint64_t Extremes::Number() {
  constexpr uint64_t kNumbers[] = {0,
                                   1,
                                   2,
                                   7,
                                   255,
                                   65536,
                                   (uint64_t{1} << 31) - 1,
                                   uint64_t{1} << 31,
                                   (uint64_t{1} << 32) - 1,
                                   uint64_t{1} << 53,
                                   (uint64_t{1} << 63) - 1,
                                   uint64_t{1} << 63,
                                   ~uint64_t{0}};
  return kNumbers[Draw(std::size(kNumbers))];
}

double Extremes::Real() {
  constexpr double kReals[] = {0.0,
                               -0.0,
                               1.0,
                               -1.0,
                               0.5,
                               std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::max(),
                               std::numeric_limits<double>::denorm_min()};
  return kReals[Draw(std::size(kReals))];
}

std::string Extremes::Text() {
  switch (Draw(8)) {
    case 0:
      return "";
    case 1:
      return std::string(4096, 'x');
    case 2:
      return std::string(size_t{1} << Draw(21), 'y');
    case 3:
      return "\x1b[2J\n\t\"{}\u202e\xc3\xa4";
    case 4:
      return std::string("\0a\0", 3);
    case 5:
      return "/proc/self/../../../../etc";
    default:
      return known.empty() ? "k" : known[Draw(known.size())];
  }
}

void Extremes::Set(Message& message, const FieldDescriptor& field, uint64_t rarity, int depth) {
  const Reflection& r = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return r.SetInt32(&message, &field, static_cast<int32_t>(Number()));
    case FieldDescriptor::CPPTYPE_INT64:
      return r.SetInt64(&message, &field, static_cast<int64_t>(Number()));
    case FieldDescriptor::CPPTYPE_UINT32:
      return r.SetUInt32(&message, &field, static_cast<uint32_t>(Number()));
    case FieldDescriptor::CPPTYPE_UINT64:
      return r.SetUInt64(&message, &field, Number());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return r.SetDouble(&message, &field, Real());
    case FieldDescriptor::CPPTYPE_FLOAT:
      return r.SetFloat(&message, &field, static_cast<float>(Real()));
    case FieldDescriptor::CPPTYPE_BOOL:
      return r.SetBool(&message, &field, Draw(2) == 0);
    case FieldDescriptor::CPPTYPE_ENUM:
      return r.SetEnumValue(&message, &field, static_cast<int>(Draw(2) == 0 ? Draw(5) : Number()));
    case FieldDescriptor::CPPTYPE_STRING:
      return r.SetString(&message, &field, Text());
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return Fill(*r.MutableMessage(&message, &field), rarity, depth + 1);
  }
}

void Extremes::Add(Message& message, const FieldDescriptor& field, uint64_t rarity, int depth) {
  const Reflection& r = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      return r.AddInt64(&message, &field, static_cast<int64_t>(Number()));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return r.AddDouble(&message, &field, Real());
    case FieldDescriptor::CPPTYPE_FLOAT:
      return r.AddFloat(&message, &field, static_cast<float>(Real()));
    case FieldDescriptor::CPPTYPE_UINT32:
      return r.AddUInt32(&message, &field, static_cast<uint32_t>(Number()));
    case FieldDescriptor::CPPTYPE_UINT64:
      return r.AddUInt64(&message, &field, Number());
    case FieldDescriptor::CPPTYPE_ENUM:
      return r.AddEnumValue(&message, &field, static_cast<int>(Draw(2) == 0 ? Draw(5) : Number()));
    case FieldDescriptor::CPPTYPE_STRING:
      return r.AddString(&message, &field, known.empty() ? "k" : known[Draw(known.size())]);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return Fill(*r.AddMessage(&message, &field), rarity, depth + 1);
    default:
      FAIL() << "a list of another type: " << field.full_name();
  }
}

void LimitMemory(uint64_t more_bytes) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  limit.rlim_cur = pages * 4096 + more_bytes;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
#endif
}

}  // namespace muster
