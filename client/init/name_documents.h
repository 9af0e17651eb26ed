#ifndef MUSTER_CLIENT_INIT_NAME_DOCUMENTS_H_
#define MUSTER_CLIENT_INIT_NAME_DOCUMENTS_H_

#include <string>

#include "common/documents/document_source.h"
#include "common/documents/source_options.h"
#include "common/tokenizer/files/trained_bits.h"
#include "proto/job.pb.h"

namespace muster {

// Returns how a job names a source, so that its tasks read it with these arguments. A token file
// brings its own tokenizer. `all` says whether all tokens are to be learned; otherwise documents
// stay whole, so that no answer loses its question to the sequence before.
v1::SequenceData NameDocuments(const DocumentSource& source, const std::string& tokenizer,
                               const SourceArguments& arguments, Trained all);

}  // namespace muster

#endif  // MUSTER_CLIENT_INIT_NAME_DOCUMENTS_H_
