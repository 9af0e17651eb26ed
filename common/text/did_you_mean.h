#ifndef MUSTER_COMMON_TEXT_DID_YOU_MEAN_H_
#define MUSTER_COMMON_TEXT_DID_YOU_MEAN_H_

#include <string>
#include <vector>

namespace muster {

// Returns "; did you mean \"batch_size\"?" for the end of an error about a word that is none of the
// names; empty if no name is near.
std::string DidYouMean(const std::string& word, const std::vector<std::string>& names);

}  // namespace muster

#endif  // MUSTER_COMMON_TEXT_DID_YOU_MEAN_H_
