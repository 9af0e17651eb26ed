#include "client/init/name_documents.h"

namespace muster {

v1::SequenceData NameDocuments(const DocumentSource& source, const std::string& tokenizer,
                               const SourceArguments& arguments, Trained all) {
  v1::SequenceData named;
  named.set_path(source.path);
  if (all == Trained::kNo) named.set_packing(v1::SequenceData::WHOLE_DOCUMENTS);
  if (source.form == DocumentSource::Form::kTokenFile) return named;
  named.set_tokenizer(tokenizer);
  v1::DocumentSpec documents;
  documents.set_field(arguments.field);
  documents.set_model(arguments.model);
  if (arguments.template_name != SourceArguments().template_name) {
    documents.set_template_name(arguments.template_name);
  }
  documents.set_raw(arguments.raw);
  if (documents.ByteSizeLong() > 0) *named.mutable_documents() = documents;
  return named;
}

}  // namespace muster
