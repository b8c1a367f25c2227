package queue

import (
	"bytes"
	"encoding/xml"
	"errors"
	"strconv"

	"kennel/devstore/internal/rest"
)

const (
	maxText       = 64 << 10
	maxReceive    = 32
	maxVisibility = 7 * 24 * 60 * 60 // seconds

	defaultVisibility = 30
	defaultLife       = maxVisibility
)

func (s *Service) putMessage(r *rest.Request, name string) (*rest.Answer, error) {
	hidden, err := readSeconds(r, "visibilitytimeout", 0, 0)
	if err != nil {
		return nil, err
	}
	life, err := readLife(r)
	if err != nil {
		return nil, err
	}
	if life != forever && life <= hidden {
		return nil, tooLate(hidden)
	}
	text, err := readText(r.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.open(r, name)
	if err != nil {
		return nil, err
	}
	s.sequence++
	now, stamp := ticksOf(r.Now), s.stamp(r)
	m := &message{
		id:       newID(s.seed, stamp),
		text:     text,
		sequence: s.sequence,
		place:    place(s.seed, s.sequence),
		inserted: now,
		expires:  never,
		visible:  now.after(hidden),
		receipt:  stamp,
	}
	if life != forever {
		m.expires = now.after(life)
	}
	q.add(m)
	e := encode(recordMessage, r.Account, name)
	e.message(m)
	s.log.Append(e)
	return reply(201, func(b *bytes.Buffer) { writeMessage(b, m, showReceipt) }), nil
}

// stamp returns a time that no other message or receipt has.
func (s *Service) stamp(r *rest.Request) ticks {
	s.last = ticksOf(s.stamps.Next(r.Now))
	return s.last
}

func (s *Service) getMessages(r *rest.Request, name string) (*rest.Answer, error) {
	count, err := readCount(r)
	if err != nil {
		return nil, err
	}
	hidden, err := readSeconds(r, "visibilitytimeout", 1, defaultVisibility)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.open(r, name)
	if err != nil {
		return nil, err
	}
	messages := q.next(count)
	if len(messages) > 0 {
		e := encode(recordMoved, r.Account, name)
		for _, m := range messages {
			m.receipt = s.stamp(r)
			m.count++
			q.hide(m, ticksOf(r.Now).after(hidden))
			e = append(e, m.id[:]...)
			e.moved(m)
		}
		s.log.Append(e)
	}
	return reply(200, func(b *bytes.Buffer) {
		for _, m := range messages {
			writeMessage(b, m, showReceipt|showText)
		}
	}), nil
}

func (s *Service) peekMessages(r *rest.Request, name string) (*rest.Answer, error) {
	count, err := readCount(r)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.open(r, name)
	if err != nil {
		return nil, err
	}
	return reply(200, func(b *bytes.Buffer) {
		for _, m := range q.next(count) {
			writeMessage(b, m, showText)
		}
	}), nil
}

func (s *Service) updateMessage(r *rest.Request, name, id string) (*rest.Answer, error) {
	receipt, err := readReceipt(r)
	if err != nil {
		return nil, err
	}
	if !r.Query.Has("visibilitytimeout") {
		return nil, missingQuery("visibilitytimeout")
	}
	hidden, err := readSeconds(r, "visibilitytimeout", 0, 0)
	if err != nil {
		return nil, err
	}
	var text string
	if len(r.Body) > 0 {
		if text, err = readText(r.Body); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, m, err := s.find(r, name, id, receipt)
	if err != nil {
		return nil, err
	}
	visible := ticksOf(r.Now).after(hidden)
	if hidden > 0 && visible > m.expires {
		return nil, tooLate(hidden)
	}
	m.receipt = s.stamp(r)
	q.hide(m, visible)
	if len(r.Body) > 0 {
		m.text = text
		e := encode(recordMessage, r.Account, name)
		e.message(m)
		s.log.Append(e)
	} else {
		e := append(encode(recordMoved, r.Account, name), m.id[:]...)
		e.moved(m)
		s.log.Append(e)
	}
	return rest.Reply(204, "x-ms-popreceipt", formatReceipt(m.receipt), "x-ms-time-next-visible", rest.Date(m.visible.time())), nil
}

func (s *Service) deleteMessage(r *rest.Request, name, id string) (*rest.Answer, error) {
	receipt, err := readReceipt(r)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, m, err := s.find(r, name, id, receipt)
	if err != nil {
		return nil, err
	}
	q.remove(m)
	s.log.Append(append(encode(recordNoMessage, r.Account, name), m.id[:]...))
	return rest.Reply(204), nil
}

func (s *Service) clearMessages(r *rest.Request, name string) (*rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.open(r, name)
	if err != nil {
		return nil, err
	}
	if len(q.byID) > 0 {
		q.clear()
		s.log.Append(encode(recordCleared, r.Account, name))
	}
	return rest.Reply(204), nil
}

// find returns the message that has this id and this newest receipt. A receipt
// that is not the newest is answered as a message that does not exist.
func (s *Service) find(r *rest.Request, name, id string, receipt ticks) (*queue, *message, error) {
	q, err := s.open(r, name)
	if err != nil {
		return nil, nil, err
	}
	key, ok := rest.ParseGUID(id)
	m := q.byID[key]
	if !ok || m == nil || m.receipt != receipt {
		return nil, nil, rest.Fail(404, "MessageNotFound", "The specified message does not exist.")
	}
	return q, m, nil
}

// What writeMessage shows besides the id and the times.
const (
	showReceipt = 1 << iota
	showText    // and how often the message was received
)

func reply(status int, write func(*bytes.Buffer)) *rest.Answer {
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="utf-8"?><QueueMessagesList>`)
	write(&b)
	b.WriteString(`</QueueMessagesList>`)
	return rest.Reply(status).With("application/xml", b.Bytes())
}

func writeMessage(b *bytes.Buffer, m *message, show int) {
	b.WriteString(`<QueueMessage>`)
	writeElement(b, "MessageId", rest.GUID(m.id))
	writeElement(b, "InsertionTime", rest.Date(m.inserted.time()))
	writeElement(b, "ExpirationTime", rest.Date(m.expires.time()))
	if show&showReceipt != 0 {
		writeElement(b, "PopReceipt", formatReceipt(m.receipt))
		writeElement(b, "TimeNextVisible", rest.Date(m.visible.time()))
	}
	if show&showText != 0 {
		writeElement(b, "DequeueCount", strconv.FormatInt(m.count, 10))
		writeElement(b, "MessageText", m.text)
	}
	b.WriteString(`</QueueMessage>`)
}

// readText reads the body of a message. The text may hold what XML may hold, so
// most control characters are refused.
func readText(body []byte) (string, error) {
	var document struct {
		XMLName xml.Name `xml:"QueueMessage"`
		Text    *struct {
			Text  string     `xml:",chardata"`
			Other []struct{} `xml:",any"`
		} `xml:"MessageText"`
		Other []struct{} `xml:",any"`
	}
	err := decodeXML(body, &document)
	switch {
	case err != nil:
	case document.Text == nil:
		err = errors.New("MessageText is missing")
	case len(document.Other) > 0 || len(document.Text.Other) > 0:
		err = errors.New("there are elements other than MessageText")
	}
	if err != nil {
		return "", rest.InvalidXML(err.Error())
	}
	if len(document.Text.Text) > maxText {
		e := rest.Fail(413, "RequestBodyTooLarge", "The request body is too large and exceeds the maximum permissible limit.")
		e.Details = []string{"MaxLimit", strconv.Itoa(maxText)}
		return "", e
	}
	return document.Text.Text, nil
}

// forever is the time to live of a message that does not expire.
const forever = -1

func readLife(r *rest.Request) (int64, error) {
	value := r.Query.Get("messagettl")
	if value == "" {
		return defaultLife, nil
	}
	if value == strconv.Itoa(forever) {
		return forever, nil
	}
	return readNumber(r, "messagettl", 1, int64(never))
}

func readSeconds(r *rest.Request, name string, low, missing int64) (int64, error) {
	if r.Query.Get(name) == "" {
		return missing, nil
	}
	return readNumber(r, name, low, maxVisibility)
}

func readCount(r *rest.Request) (int, error) {
	if r.Query.Get("numofmessages") == "" {
		return 1, nil
	}
	count, err := readNumber(r, "numofmessages", 1, maxReceive)
	return int(count), err
}

// tooLate is the error of a message that would expire before it is visible.
func tooLate(hidden int64) error {
	return rest.InvalidQuery("visibilitytimeout", strconv.FormatInt(hidden, 10), "messagettl must be greater than visibilitytimeout")
}
