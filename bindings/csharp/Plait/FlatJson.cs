using System;
using System.Globalization;
using System.Text;

namespace Plait
{
    // Reads the members of a JSON object whose values are texts and numbers, which is what a line of the log is.
    internal sealed class FlatJson
    {
        private static readonly char[] SpecialCharacters = { '"', '\\' };

        private readonly string text;
        private int at;

        public FlatJson(string text)
        {
            this.text = text;
            Expect('{');
        }

        // The next member; numbers come as they are written.
        public bool Next(out string key, out string value)
        {
            key = value = null;
            if (Peek() == ',') ++at;
            if (Peek() == '}') return false;
            key = Text();
            Expect(':');
            value = Peek() == '"' ? Text() : Word();
            return true;
        }

        private char Peek()
        {
            while (at < text.Length && char.IsWhiteSpace(text[at])) ++at;
            if (at == text.Length) throw Broken();
            return text[at];
        }

        private void Expect(char wanted)
        {
            if (Peek() != wanted) throw Broken();
            ++at;
        }

        private string Word()
        {
            int begin = at;
            while (at < text.Length && text[at] != ',' && text[at] != '}') ++at;
            return text.Substring(begin, at - begin).Trim();
        }

        private string Text()
        {
            Expect('"');
            int end = Special();
            if (text[end] == '"') return Take(end); // no escapes, as nearly always
            var result = new StringBuilder(text.Length - at);
            while (text[end] != '"')
            {
                result.Append(text, at, end - at);
                at = end;
                result.Append(Escape());
                end = Special();
            }
            return result.Append(Take(end)).ToString();
        }

        private int Special()
        {
            int found = text.IndexOfAny(SpecialCharacters, at);
            if (found < 0) throw Broken();
            return found;
        }

        // The characters up to the quote at `end`, which is passed.
        private string Take(int end)
        {
            string run = text.Substring(at, end - at);
            at = end + 1;
            return run;
        }

        private char Escape()
        {
            at += 2;
            if (at > text.Length) throw Broken();
            char kind = text[at - 1];
            switch (kind)
            {
                case 'b': return '\b';
                case 'f': return '\f';
                case 'n': return '\n';
                case 'r': return '\r';
                case 't': return '\t';
                case 'u':
                    if (at + 4 > text.Length) throw Broken();
                    at += 4;
                    return (char)ushort.Parse(text.Substring(at - 4, 4), NumberStyles.AllowHexSpecifier,
                        CultureInfo.InvariantCulture);
                default: return kind;
            }
        }

        private FormatException Broken()
        {
            return new FormatException("The line is no JSON object of texts and numbers: " + text);
        }
    }
}
