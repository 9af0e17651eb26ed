#ifndef MUSTER_COMMON_MODEL_FILES_SHORTEST_H_
#define MUSTER_COMMON_MODEL_FILES_SHORTEST_H_

#include <charconv>

namespace muster {

// Returns the shortest decimal number that is this one in f32: 1e-05 rather than
// 9.999999747378752e-06.
inline double Shortest(float value) {
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof(text), value);
  double number = 0;
  std::from_chars(text, end.ptr, number);
  return number;
}

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_SHORTEST_H_
