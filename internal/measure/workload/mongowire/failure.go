package mongowire

import "go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

// failure is an error as the protocol has them: MongoDB's code, its name, a text.
type failure struct {
	code int32
	name string
	text string
}

func badValue(text string) *failure      { return &failure{2, "BadValue", text} }
func typeMismatch(text string) *failure  { return &failure{14, "TypeMismatch", text} }
func failedToParse(text string) *failure { return &failure{9, "FailedToParse", text} }
func missingField(text string) *failure  { return &failure{40414, "Location40414", text} }
func notImplemented(text string) *failure {
	return &failure{238, "NotImplemented", text + ": not implemented"}
}
func unknownCommand(name string) *failure {
	return &failure{59, "CommandNotFound", "no such command: '" + name + "'"}
}

// append writes the failure as a command's answer.
func (f *failure) append(dst []byte) []byte {
	dst = bsoncore.AppendDoubleElement(dst, "ok", 0)
	dst = bsoncore.AppendStringElement(dst, "errmsg", f.text)
	dst = bsoncore.AppendInt32Element(dst, "code", f.code)
	return bsoncore.AppendStringElement(dst, "codeName", f.name)
}
