#ifndef MUSTER_COMMON_TEXT_NEAREST_WORD_H_
#define MUSTER_COMMON_TEXT_NEAREST_WORD_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

// The known word that somebody probably meant who wrote `word`: the one that takes the fewest
// letters put in, left out, changed or swapped with the next, at most one for every three of
// `word`. Upper and lower case are the same, and so are '-' and '_'. Of equally near ones the
// first. Empty: none is near.
std::string NearestWord(absl::string_view word, const std::vector<std::string>& known);

// "; did you mean \"batch_size\"?", or nothing where no known word is near.
std::string DidYouMean(absl::string_view word, const std::vector<std::string>& known);

}  // namespace muster

#endif  // MUSTER_COMMON_TEXT_NEAREST_WORD_H_
