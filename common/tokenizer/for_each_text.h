#ifndef MUSTER_COMMON_TOKENIZER_FOR_EACH_TEXT_H_
#define MUSTER_COMMON_TOKENIZER_FOR_EACH_TEXT_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/files/file_content.h"

namespace muster {

// ForEachTextFile (common/files/text_files.h) for those who make tokens of the text.
// InvalidArgument, too: one of the files is a token file, whose bytes are no text; names it.
absl::Status ForEachText(const std::string& path,
                         absl::FunctionRef<absl::Status(FileContent file)> take);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_FOR_EACH_TEXT_H_
